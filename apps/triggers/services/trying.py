"""A dry run: what a definition would have fired for, over the real feed, beside what the stored one would. Writes
nothing.

A run is bounded in operations and in time and says where it stopped; `next_from` goes on from there.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.keys.principal import Principal
from apps.state import stores
from apps.triggers import limits
from apps.triggers.definition import BEGINNING, Definition, of_trigger, read
from apps.triggers.errors import ReplayFailed, TriggerInvalid
from apps.triggers.evaluation import matching, standing
from apps.triggers.evaluation.batches import Refused
from apps.triggers.evaluation.compiled import CompiledTrigger, compile_definition, source_change_id
from apps.triggers.evaluation.matching import Match
from apps.triggers.evaluation.standing import Standing
from apps.triggers.models import Trigger
from apps.triggers.services.defining import subject_of
from feltdb_engine import Store
from feltdb_engine.errors import EngineError
from feltdb_engine.model import Cursor, Operation

RECENT = "recent"
NEW, OLD = "new", "old"


@dataclass(kw_only=True, slots=True)
class _Count:
    """What one definition, or the difference of two, matched."""

    matched: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, operation: Operation, *, samples: int) -> None:
        self.matched += 1
        if len(self.samples) < samples:
            self.samples.append(
                {
                    "source_change_id": source_change_id(operation),
                    "record_key": operation.key,
                    "change_kind": operation.kind,
                    "at_ms": operation.at_ms,
                }
            )

    def as_json(self) -> dict[str, Any]:
        return {"matched": self.matched, "samples": self.samples}


def dry_run(
    namespace: str,
    trigger_id: str,
    members: Mapping[str, Any],
    *,
    by: Principal,
    start_from: str = RECENT,
    samples: int = limits.DRY_RUN_SAMPLES,
    within_s: float = limits.DRY_RUN_S,
    monotonic: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Return how often the definition would have fired, and for what.

    `members` change the trigger of that id, or are all of a definition where there is none. A stored trigger whose
    definition differs is run beside it: `only_new` and `only_old` are what the change would add and take away.
    `start_from` is `recent` (the newest DRY_RUN_OPERATIONS changes), `beginning`, or a cursor; at most
    DRY_RUN_OPERATIONS and `within_s`. Raises TRIGGER_INVALID, TRIGGER_STATE_REPLAY_FAILED.
    """
    if not 0 <= samples <= limits.DRY_RUN_MAX_SAMPLES:
        raise TriggerInvalid(f"samples is 0 to {limits.DRY_RUN_MAX_SAMPLES}", field="samples")
    new, old = _sides(namespace, trigger_id, members, by)
    try:
        store = stores.store(namespace)
        start = _start(store, start_from)
        return _run(namespace, store, start, new, old, samples, within_s, monotonic)
    except EngineError as error:
        raise ReplayFailed(f"the feed could not be read: {error.message}") from error


def _sides(
    namespace: str, trigger_id: str, members: Mapping[str, Any], by: Principal
) -> tuple[CompiledTrigger, CompiledTrigger | None]:
    """The definition to try and, where it says something else, the stored one."""
    stored = Trigger.objects.filter(namespace=namespace, trigger_id=trigger_id).exclude(state="archived").first()
    current = None if stored is None else of_trigger(stored)
    asked = {**(current.as_json() if current else {}), **members, "trigger_id": trigger_id}
    requester = current.requested_by if current else subject_of(by)
    wanted = read(asked, namespace=namespace, requested_by=requester)
    new = _compiled(namespace, wanted)
    return new, None if current is None or current == wanted else _compiled(namespace, current)


def _compiled(namespace: str, definition: Definition) -> CompiledTrigger:
    return compile_definition(definition, pk=0, namespace=namespace, revision=0, grant_id="")


def _start(store: Store, start_from: str) -> Cursor:
    head, floor = store.head(), store.start()
    if start_from == BEGINNING:
        return floor
    if start_from == RECENT:
        return Cursor(
            instance_id=head.instance_id, sequence=max(floor.sequence, head.sequence - limits.DRY_RUN_OPERATIONS)
        )
    try:
        return Cursor.parse(start_from)
    except ValueError as error:
        raise TriggerInvalid("from is recent, beginning, or a cursor", field="from") from error


def _run(
    namespace: str,
    store: Store,
    start: Cursor,
    new: CompiledTrigger,
    old: CompiledTrigger | None,
    samples: int,
    within_s: float,
    monotonic: Callable[[], float],
) -> dict[str, Any]:
    sides = [side for side in (new, old) if side is not None]
    collections = sorted({side.collection for side in sides})
    at, head = start, store.head()
    counts = {name: _Count() for name in (NEW, OLD, "only_new", "only_old", "refused")}
    reasons: dict[str, int] = {}
    ends = monotonic() + within_s
    read_until = time.monotonic() + within_s
    looked_at = 0
    first_at_ms = last_at_ms = None
    late = False
    while not late and at.sequence < head.sequence and at.sequence - start.sequence < limits.DRY_RUN_OPERATIONS:
        page = store.changes(at, limit=limits.SCAN_OPERATIONS, collections=collections, deadline=read_until)
        table = standing.dispatch([_standing(side, at) for side in sides])
        for begin in range(0, len(page.operations), limits.DRY_RUN_SLICE):
            some = page.operations[begin : begin + limits.DRY_RUN_SLICE]
            _tally(namespace, matching.matches(store, some, table), new, counts, reasons, samples)
            looked_at += len(some)
            first_at_ms = some[0].at_ms if first_at_ms is None else first_at_ms
            last_at_ms = some[-1].at_ms
            late = monotonic() >= ends
            if late and begin + len(some) < len(page.operations):
                at = Cursor(instance_id=page.cursor.instance_id, sequence=some[-1].sequence)
                break
        else:
            at = page.cursor
            late = late or time.monotonic() >= read_until
    through = at.sequence >= head.sequence
    return {
        "from": str(start),
        "to": str(at),
        "next_from": None if through else str(at),
        "operations": at.sequence - start.sequence,
        "changes": looked_at,
        "first_at_ms": first_at_ms,
        "last_at_ms": last_at_ms,
        **counts[NEW].as_json(),
        "refused": {**counts["refused"].as_json(), "codes": reasons},
        "against": None
        if old is None
        else {
            "matched": counts[OLD].matched,
            "only_new": counts["only_new"].as_json(),
            "only_old": counts["only_old"].as_json(),
        },
    }


def _standing(compiled: CompiledTrigger, at: Cursor) -> Standing:
    return Standing(compiled=compiled, stored=at, reached=at)


def _tally(
    namespace: str,
    found: list[Match],
    new: CompiledTrigger,
    counts: dict[str, _Count],
    reasons: dict[str, int],
    samples: int,
) -> None:
    """Count a page's matches; those of the new definition are made ready as work, to see which would be refused."""
    matched: dict[str, dict[int, Operation]] = {NEW: {}, OLD: {}}
    ours = [match for match in found if match.standing.compiled is new]
    for match in found:
        side = NEW if match.standing.compiled is new else OLD
        if not match.undecided:
            matched[side][match.operation.sequence] = match.operation
            counts[side].add(match.operation, samples=samples)
    for rows, _ in matching.chunks(namespace, ours):
        for _, row in rows:
            if isinstance(row, Refused):
                counts["refused"].add(row.operation, samples=samples)
                reasons[row.code] = reasons.get(row.code, 0) + 1
    for name, one, other in (("only_new", NEW, OLD), ("only_old", OLD, NEW)):
        for sequence, operation in matched[one].items():
            if sequence not in matched[other]:
                counts[name].add(operation, samples=samples)
