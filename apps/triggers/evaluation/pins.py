"""What evaluators pin in a namespace's store: the history its triggers have yet to see, and how far it was evaluated.

    triggers                   from the hindmost cursor that is to go on from where it stands, at most
                               `max_lag_operations` behind the head: compaction waits for it
    triggers-seen:<timeline>   the farthest change this database had seen, told to the store, so that a database that
                               was put back to an earlier state is noticed; of another timeline it says nothing. It is
                               let go where it alone would keep history: what lies before a trigger's first change
                               cannot be evaluated, so a database put back to there blocks that trigger by itself

Pins are frames of the log, so they are renewed seldom. Not here: who is behind too far (`services/`, `health`).
"""

from dataclasses import dataclass

from django.db.models import F, Min

from apps.triggers.limits import PIN_MS, PIN_RENEW_MS
from apps.triggers.models import Trigger, TriggerCursor, TriggerReplay
from feltdb_engine import Store
from feltdb_engine.errors import CursorAhead, FeedCompacted, PinNotFound
from feltdb_engine.model import Cursor

NEEDED = "triggers"
_SEEN = "triggers-seen:"
HOLDING = (Trigger.State.ACTIVE, Trigger.State.PAUSED, Trigger.State.BLOCKED)


@dataclass(frozen=True, slots=True)
class _Said:
    sequence: int
    at_ms: int


class Pins:
    """The pins of one namespace, as one evaluator renews them."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._needed: _Said | None = None
        self._seen: _Said | None = None
        self._looked_at_ms: int | None = None

    def renew(self, store: Store, *, seen_sequence: int, now_ms: int) -> None:
        """Bring the pins up to date, at most every `PIN_RENEW_MS`. Outside a transaction: it waits for the disk.

        `seen_sequence` is committed in the database already.
        """
        if self._looked_at_ms is not None and now_ms - self._looked_at_ms < PIN_RENEW_MS:
            return
        self._looked_at_ms = now_ms
        head = store.head()
        needed = needed_from(self._namespace, head)
        if needed is None:
            self._let_go(store, head, now_ms)
            return
        if _is_due(self._needed, needed, now_ms):
            self._needed = _pin(store, NEEDED, needed, now_ms)
        if seen_sequence < needed:
            _unpin(store, _SEEN + head.instance_id, now_ms=now_ms)
            self._seen = None
        elif _is_due(self._seen, seen_sequence, now_ms):
            self._seen = _pin(store, _SEEN + head.instance_id, seen_sequence, now_ms)

    def _let_go(self, store: Store, head: Cursor, now_ms: int) -> None:
        """No trigger is to go on from where it stands: nothing is kept for any."""
        _unpin(store, NEEDED, _SEEN + head.instance_id, now_ms=now_ms)
        self._needed = self._seen = None


def needed_from(namespace: str, head: Cursor) -> int | None:
    """Return the sequence whose later operations triggers and replays have yet to see, None where there are none."""
    cursors = TriggerCursor.objects.filter(namespace=namespace, trigger__state__in=HOLDING)
    behind = cursors.values("trigger__max_lag_operations").annotate(hindmost=Min("sequence"))
    places = [
        max(hindmost, head.sequence - most)
        for most, hindmost in behind.values_list("trigger__max_lag_operations", "hindmost")
    ]
    replays = TriggerReplay.objects.filter(namespace=namespace, ended_at_ms__isnull=True)
    places += [
        max(position, head.sequence - most)
        for most, position in replays.annotate(most=F("trigger__max_lag_operations")).values_list("most", "position")
    ]
    return min(min(places), head.sequence) if places else None


def standing_between(namespace: str, low: int, high: int) -> list[str]:
    """Return the ids of the triggers that are to go on from `low` or later and before `high`, in their order."""
    cursors = TriggerCursor.objects.filter(namespace=namespace, trigger__state__in=HOLDING)
    between = cursors.filter(sequence__gte=low, sequence__lt=high).order_by("trigger__trigger_id")
    return list(between.values_list("trigger__trigger_id", flat=True))


def told(store: Store, *, now_ms: int) -> int:
    """Return how far a database has told this store, on its present timeline, that it had seen it; 0 for never."""
    name = _SEEN + store.head().instance_id
    return max((pin.sequence for pin in store.pins(now_ms=now_ms) if pin.name == name), default=0)


def say_seen(store: Store, sequence: int, *, now_ms: int) -> None:
    """Tell the store how far the database has evaluated it, also where that is less than was said before.

    Where history no longer reaches back so far, nothing is said: what was said before does not hold either.
    """
    name = _SEEN + store.head().instance_id
    if _pin(store, name, sequence, now_ms) is None:
        _unpin(store, name, now_ms=now_ms)


def _is_due(said: _Said | None, sequence: int, now_ms: int) -> bool:
    return said is None or said.sequence != sequence or now_ms - said.at_ms >= PIN_MS // 2


def _unpin(store: Store, *names: str, now_ms: int) -> None:
    for name in {pin.name for pin in store.pins(now_ms=now_ms)}.intersection(names):
        try:
            store.unpin(name)
        except PinNotFound:
            continue  # another evaluator did


def _pin(store: Store, name: str, sequence: int, now_ms: int) -> _Said | None:
    try:
        store.pin(name, sequence, now_ms + PIN_MS, now_ms=now_ms)
    except (FeedCompacted, CursorAhead):
        return None  # it lies where nothing can be kept any more, or the store was put back: evaluation says so
    return _Said(sequence, now_ms)
