"""Where the live triggers of a namespace stand: their cursors as stored, and how far this process has come beyond.

Not here: moving stored cursors (`batches.py`).
"""

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import F

from apps.triggers.evaluation.compiled import CompiledTrigger, compile_trigger
from apps.triggers.limits import SCAN_OPERATIONS
from apps.triggers.models import SKIPPED, Trigger, TriggerCursor, TriggerQuarantine
from feltdb_engine.model import Cursor


@dataclass(kw_only=True, slots=True)
class Standing:
    """One live trigger: `stored` is its cursor in the database, `reached` what was looked at since, in memory only."""

    compiled: CompiledTrigger
    stored: Cursor
    reached: Cursor
    skips: frozenset[tuple[str, int]] = frozenset()
    """Changes beyond the cursor, by timeline and sequence, that an operator told it to pass over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """Who is to be asked about a change, by (collection, kind), each list in the order of the trigger ids.

    `remembered` are the collections whose records' earlier values somebody asks for.
    """

    by_change: Mapping[tuple[str, str], Sequence[Standing]]
    remembered: frozenset[str]


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
    skips = _skips(namespace)
    standings = []
    for pk, revision, instance_id, sequence in rows:
        compiled = known.get((pk, revision))
        if compiled is None:  # changed between the two reads; the next load has it
            continue
        cursor = Cursor(instance_id=instance_id, sequence=sequence)
        skipped = skips.get(pk, frozenset())
        standings.append(Standing(compiled=compiled, stored=cursor, reached=cursor, skips=skipped))
    return standings


def _skips(namespace: str) -> Mapping[int, frozenset[tuple[str, int]]]:
    """Return, by trigger, the changes that an operator told it to pass over before it came to them."""
    rows = TriggerQuarantine.objects.filter(namespace=namespace, code=SKIPPED).filter(
        sequence__gt=F("trigger__cursor__sequence")
    )
    found: dict[int, set[tuple[str, int]]] = defaultdict(set)
    for pk, instance_id, sequence in rows.values_list("trigger_id", "instance_id", "sequence"):
        found[pk].add((instance_id, sequence))
    return {pk: frozenset(skipped) for pk, skipped in found.items()}


class Group:
    """Triggers that one scan serves, the hindmost first. What is asked of them for each page is worked out once."""

    def __init__(self, members: list[Standing]) -> None:
        self.members = members

    @property
    def hindmost(self) -> Cursor:
        """How far all of them have looked."""
        return self.members[0].reached

    @functools.cached_property
    def collections(self) -> tuple[str, ...]:
        """What they watch."""
        return tuple(sorted({each.compiled.collection for each in self.members}))

    @functools.cached_property
    def dispatch(self) -> Dispatch:
        """Who of them is to be asked about a change."""
        return dispatch(self.members)

    def reach(self, cursor: Cursor) -> bool:
        """Have looked at everything up to a cursor. Tells whether they stand together now: who was beyond it stays."""
        together = True
        for each in self.members:
            if each.reached.sequence <= cursor.sequence:
                each.reached = cursor
            else:
                together = False
        return together


def clusters(standings: Iterable[Standing]) -> list[Group]:
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
    return [Group(members) for members in reversed(groups)]


def dispatch(standings: Iterable[Standing]) -> Dispatch:
    """Index those that stand together."""
    table: dict[tuple[str, str], list[Standing]] = defaultdict(list)
    remembered: set[str] = set()
    for each in sorted(standings, key=lambda standing: standing.compiled.trigger_id):
        for kind, terms in each.compiled.terms.items():
            table[each.compiled.collection, kind].append(each)
            if terms.reads_previous:
                remembered.add(each.compiled.collection)
    return Dispatch(by_change=table, remembered=frozenset(remembered))
