"""What a page of the feed means to triggers: which changes match, and the rows they become. Writes nothing.

Not here: where triggers stand (`standing.py`), which pages are read (`walker.py`) and what is written (`batches.py`).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from apps.http.errors import ApiError
from apps.triggers.contract import Change, Reason, change_of
from apps.triggers.evaluation.batches import Refused, Work
from apps.triggers.evaluation.compiled import CompiledTrigger, refusal_of_depth, work_for
from apps.triggers.evaluation.previous import PreviousRecords
from apps.triggers.evaluation.standing import Dispatch, Standing
from apps.triggers.limits import BATCH_BYTES, BATCH_ROWS
from apps.workloads.commands import CreateWorkload
from apps.workloads.models import Request
from apps.workloads.services import prepare
from feltdb_engine import Store
from feltdb_engine.model import Operation

PREVIOUS_GONE = "TRIGGER_PREVIOUS_GONE"
FEEDS_ITSELF = "TRIGGER_FEEDS_ITSELF"


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """A change that is a trigger's business. `undecided`: it hangs on a record before it that history has lost."""

    standing: Standing
    operation: Operation
    change: Change
    undecided: bool = False


Row = tuple[Match, Work | Refused]
Place = tuple[int, str, int]
"""A change of a trigger: the trigger's pk, timeline and sequence."""


def place_of(compiled: CompiledTrigger, operation: Operation) -> Place:
    """Name a change of a trigger."""
    return compiled.pk, operation.instance_id, operation.sequence


def matches(store: Store, operations: Sequence[Operation], table: Dispatch) -> list[Match]:
    """Return what matches, in the order of the changes and, within a change, of the trigger ids."""
    previous = PreviousRecords(store)
    found: list[Match] = []
    for operation in operations:
        candidates = table.by_change.get((operation.collection, operation.kind))
        if candidates:
            change = change_of(operation)
            for each in candidates:
                if operation.sequence <= each.reached.sequence:
                    continue
                if each.skips and (operation.instance_id, operation.sequence) in each.skips:
                    continue
                terms = each.compiled.terms[operation.kind]
                reason = each.compiled.decide(change).reason
                if reason is Reason.CHANGE_PREVIOUS_ABSENT or (reason is Reason.MATCHED and terms.reads_previous):
                    change = change_of(operation, previous.of(operation))
                    reason = each.compiled.decide(change).reason
                if reason in (Reason.MATCHED, Reason.CHANGE_PREVIOUS_ABSENT):
                    undecided = reason is not Reason.MATCHED
                    found.append(Match(standing=each, operation=operation, change=change, undecided=undecided))
        if operation.collection in table.remembered:
            previous.note(operation)
    return found


def depths(namespace: str, found: Sequence[Match]) -> dict[str, int]:
    """Return how deep the work lies that made the matching changes, by workload id."""
    makers = {match.operation.actor.workload_id for match in found} - {None}
    if not makers:
        return {}
    rows: Iterator[tuple[str, object]] = (
        Request.objects.filter(namespace=namespace, workload__workload_id__in=makers)
        .values_list("workload__workload_id", "input")
        .iterator()
    )
    return {workload_id: _depth_of(stored) for workload_id, stored in rows}


def _depth_of(stored: object) -> int:
    provenance = stored.get("provenance") if isinstance(stored, dict) else None
    depth = provenance.get("depth") if isinstance(provenance, dict) else None
    return depth if isinstance(depth, int) else 0


def prepared(
    match: Match, known_depths: dict[str, int], *, replay: int = 0, foreign: Collection[Place] = ()
) -> Work | Refused:
    """Make the row of a match: work, or why it cannot be. `foreign` are those whose plain keys lost changes used."""
    compiled, operation = match.standing.compiled, match.operation

    def refused(code: str, message: str) -> Refused:
        return Refused(compiled=compiled, operation=operation, code=code, message=message, replay=replay)

    if match.undecided:
        return refused(PREVIOUS_GONE, "the predicate asks for the record before this change, which history has lost")
    depth = known_depths.get(operation.actor.workload_id or "", 0) + 1
    reason = refusal_of_depth(compiled, operation, depth)
    if reason is not None:
        return refused(FEEDS_ITSELF, reason)
    try:
        ready = prepare(_command(match, depth, replay, foreign))
    except ApiError as error:
        return refused(error.code, error.message)
    return Work(compiled=compiled, operation=operation, prepared=ready)


def _command(match: Match, depth: int, replay: int, foreign: Collection[Place]) -> CreateWorkload:
    compiled, operation = match.standing.compiled, match.operation
    by_content = bool(foreign) and place_of(compiled, operation) in foreign
    return work_for(compiled, operation, match.change, depth=depth, replay=replay, by_content=by_content)


def chunks(
    namespace: str, found: Sequence[Match], *, replay: int = 0, foreign: Collection[Place] = ()
) -> Iterator[tuple[list[Row], bool]]:
    """Yield the rows of matches in order, as many at once as a transaction may hold, and whether they are the last."""
    known_depths = depths(namespace, found)
    rows: list[Row] = []
    size = 0
    for index, match in enumerate(found, start=1):
        row = prepared(match, known_depths, replay=replay, foreign=foreign)
        rows.append((match, row))
        size += len(row.prepared.input_text) if isinstance(row, Work) else 0
        if index == len(found) or len(rows) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield rows, index == len(found)
            rows, size = [], 0
