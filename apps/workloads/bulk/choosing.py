"""Which workloads a bulk action is about: the ids that a person ticked, or all that match."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from apps.workloads import limits
from apps.workloads.errors import invalid
from apps.workloads.machine import BY_MOVE
from apps.workloads.models import Workload
from apps.workloads.reasons import alike
from apps.workloads.states import RESTING, BulkAction, State

CAPABILITY: Final = "bulk-action"
"""The program that carries orders out. Its own work is never among what matches: nothing cancels itself."""

_ENDS = tuple(state for state in RESTING if {(state, "cancel"), (state, "request_cancellation")} & BY_MOVE.keys())
ACTS_IN: Final = {
    BulkAction.RETRY: tuple(state for state in RESTING if (state, "rearm") in BY_MOVE),
    BulkAction.CANCEL: tuple(state for state in _ENDS if state != State.DEAD_LETTER),
    BulkAction.DISCARD: (State.DEAD_LETTER,),
}
"""The states in which each action means something, as the state machine has it."""

SCOPES: Final = {
    BulkAction.RETRY: "workload:retry",
    BulkAction.CANCEL: "workload:cancel",
    BulkAction.DISCARD: "workload:cancel",
}
"""What a person must hold to do it."""

_READ_TOGETHER = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What was asked for: `ids`, or all work that matches every one of the others; "" and None match any.

    `like` is what the reasons of dead letters have in common (`reasons.alike`).
    """

    ids: tuple[str, ...] = ()
    state: str = ""
    definition_id: str = ""
    trigger: str = ""
    like: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as it is kept with the order; ids are the order's rows."""
        if self.ids:
            return {"chosen": len(self.ids)}
        named = {"state": self.state, "definition_id": self.definition_id, "trigger": self.trigger}
        given: dict[str, Any] = {name: value for name, value in named.items() if value}
        return given if self.like is None else {**given, "like": self.like}


@dataclass(frozen=True, slots=True)
class Chosen:
    """One workload as it stood when it was chosen."""

    workload_id: str
    state: str
    history_length: int


class Choice:
    """Walks through what a selection names; `more` afterwards says whether something was left out."""

    def __init__(self, namespace: str, action: BulkAction, selection: Selection) -> None:
        self._namespace = namespace
        self._selection = selection
        self._states = ACTS_IN[action]
        self.more = False
        if selection.state and selection.state not in self._states:
            raise invalid(f"work that is {selection.state} cannot be part of {action}", pointer="/state")
        if len(selection.ids) > limits.MAX_BULK:
            raise invalid(f"at most {limits.MAX_BULK} at once", pointer="/ids")

    def __iter__(self) -> Iterator[Chosen]:
        if self._selection.ids:
            return self._named()
        return self._matching()

    def _named(self) -> Iterator[Chosen]:
        ids = list(dict.fromkeys(text for text in self._selection.ids if "\0" not in text))
        for start in range(0, len(ids), limits.BULK_ROWS):
            some = ids[start : start + limits.BULK_ROWS]
            rows = Workload.objects.filter(namespace=self._namespace, workload_id__in=some)
            found = {row[0]: Chosen(*row) for row in rows.values_list("workload_id", "state", "history_length")}
            yield from (found[each] for each in some if each in found)

    def _matching(self) -> Iterator[Chosen]:
        """Walk each state through its index, oldest first, up to what exists now."""
        asked = self._selection
        rows = Workload.objects.filter(namespace=self._namespace).exclude(definition_id=CAPABILITY)
        if asked.definition_id:
            rows = rows.filter(definition_id=asked.definition_id)
        if asked.trigger:
            rows = rows.filter(trigger=asked.trigger)
        newest = Workload.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        taken = looked_at = 0
        for state in [asked.state] if asked.state else self._states:
            after = 0
            while True:
                page = list(
                    rows.filter(state=state, pk__gt=after, pk__lte=newest)
                    .order_by("pk")
                    .values_list("pk", "workload_id", "state", "history_length", "last_failure")[:_READ_TOGETHER]
                )
                for after, workload_id, found, length, failure in page:  # noqa: B007 - the last one goes on
                    if asked.like is not None and alike(failure) != asked.like:
                        continue
                    if taken == limits.MAX_BULK:
                        self.more = True
                        return
                    taken += 1
                    yield Chosen(workload_id, found, length)
                looked_at += len(page)
                if len(page) < _READ_TOGETHER:
                    break
                if looked_at >= limits.MAX_BULK_LOOKED_AT:
                    self.more = True
                    return
