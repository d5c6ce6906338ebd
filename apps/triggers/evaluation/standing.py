"""Where the live triggers of a namespace stand: their cursors as stored, and how far this process has come beyond.

Not here: moving stored cursors (`batches.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apps.triggers.evaluation.compiled import CompiledTrigger, compile_trigger
from apps.triggers.limits import SCAN_OPERATIONS
from apps.triggers.models import Trigger, TriggerCursor
from feltdb_engine.model import Cursor


@dataclass(kw_only=True, slots=True)
class Standing:
    """One live trigger: `stored` is its cursor in the database, `reached` what was looked at since, in memory only."""

    compiled: CompiledTrigger
    stored: Cursor
    reached: Cursor


Dispatch = Mapping[tuple[str, str], Sequence[Standing]]


def load(namespace: str, known: dict[tuple[int, int], CompiledTrigger]) -> list[Standing]:
    """Read the live cursors. `known` holds what is compiled by (trigger, revision) and is brought up to date."""
    rows = list(
        TriggerCursor.objects.filter(namespace=namespace, live=True).values_list(
            "trigger_id", "revision", "instance_id", "sequence"
        )
    )
    missing = [pk for pk, revision, _, _ in rows if (pk, revision) not in known]
    for trigger in Trigger.objects.filter(pk__in=missing).iterator():
        known[trigger.pk, trigger.revision] = compile_trigger(trigger)
    current = {(pk, revision) for pk, revision, _, _ in rows}
    for stale in known.keys() - current:
        del known[stale]
    standings = []
    for pk, revision, instance_id, sequence in rows:
        compiled = known.get((pk, revision))
        if compiled is None:  # changed between the two reads; the next load has it
            continue
        cursor = Cursor(instance_id=instance_id, sequence=sequence)
        standings.append(Standing(compiled=compiled, stored=cursor, reached=cursor))
    return standings


def clusters(standings: Iterable[Standing]) -> list[list[Standing]]:
    """Group those that stand near each other on one timeline, the farthest on first: one scan serves a group."""
    ordered = sorted(standings, key=lambda each: (each.reached.instance_id, each.reached.sequence))
    groups: list[list[Standing]] = []
    for each in ordered:
        last = groups[-1][-1].reached if groups else None
        near = (
            last is not None
            and last.instance_id == each.reached.instance_id
            and each.reached.sequence - last.sequence <= SCAN_OPERATIONS
        )
        if near:
            groups[-1].append(each)
        else:
            groups.append([each])
    groups.reverse()
    return groups


def dispatch(standings: Iterable[Standing]) -> Dispatch:
    """Index by (collection, kind), each list in the order of the trigger ids."""
    table: dict[tuple[str, str], list[Standing]] = defaultdict(list)
    for each in sorted(standings, key=lambda standing: standing.compiled.trigger_id):
        for kind in each.compiled.terms:
            table[each.compiled.collection, kind].append(each)
    return table
