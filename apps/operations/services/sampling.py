"""How each minute went, counted by the worker processes and drawn as curves on the overview.

The first worker that comes to a minute's end counts the events since the last count, so a minute without any worker is
a gap. Events of a transaction that was open while it counted may be missed: the curves are for the eye.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Count, Max

from apps.keys.models import Namespace
from apps.operations.models import Sample
from apps.triggers import services as triggers
from apps.workloads import overview as work
from apps.workloads.clock import now_ms
from apps.workloads.models import Event
from apps.workloads.states import State
from apps.workloads.worker_options import Step

MINUTE_MS = 60_000
SHOWN_MINUTES = 60
KEPT_MS = 24 * 3_600_000
LOOK_S = 5.0
MAX_NAMESPACES = 100
"""Namespaces counted, in the order of their names."""

MAX_EVENTS = 500_000
"""Events counted at once; more of one minute are left out, so that a count stays short."""

_WIDTH, _HEIGHT = 240, 40
_FAILURES = (State.FAILED, State.TIMED_OUT, State.RECOVERING)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a curve without gaps: SVG points of its line, and of the area below it."""

    line: str
    area: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One figure over the last hour, one point a minute. `told` says it in words."""

    label: str
    shown_last: str
    shown_most: str
    pieces: Sequence[Piece]
    told: str
    bad: bool
    width: int = _WIDTH
    height: int = _HEIGHT


def step() -> Step:
    """Return the background step of a worker that counts each minute once it is over."""

    def look(_: threading.Event) -> bool:
        sample(now_ms=now_ms())
        return False

    return Step("samples", look, pause_s=LOOK_S)


def sample(*, now_ms: int) -> int:
    """Count the minute that has just ended, where nobody has. Returns how many namespaces were counted."""
    minute_ms = now_ms // MINUTE_MS * MINUTE_MS - MINUTE_MS
    names = list(Namespace.objects.order_by("name").values_list("name", flat=True)[:MAX_NAMESPACES])
    if not names or Sample.objects.filter(minute_ms=minute_ms).exists():
        return 0
    newest = Event.objects.aggregate(newest=Max("pk"))["newest"] or 0
    counted = Sample.objects.aggregate(counted=Max("event_pk"))["counted"]
    after = newest if counted is None else max(counted, newest - MAX_EVENTS)
    counts = {
        (namespace, state): count
        for namespace, state, count in Event.objects.filter(pk__gt=after, pk__lte=newest)
        .order_by()
        .values_list("namespace", "to_state")
        .annotate(count=Count("pk"))
    }
    rows = [_row(name, minute_ms, newest, counts, now_ms) for name in names]
    try:
        with transaction.atomic():
            Sample.objects.bulk_create(rows)
            Sample.objects.filter(minute_ms__lt=now_ms - KEPT_MS).delete()
    except IntegrityError:
        return 0  # another worker counted this minute just now
    return len(rows)


def _row(name: str, minute_ms: int, newest: int, counts: dict[tuple[str, str], int], now_ms: int) -> Sample:
    head = triggers.head_of(name)
    lags = [triggers.lag(each, head) or 0 for each in triggers.list_triggers(name)]
    waiting = work.longest_waiting(name, now_ms=now_ms)
    return Sample(
        namespace=name,
        minute_ms=minute_ms,
        succeeded=counts.get((name, State.SUCCEEDED), 0),
        failed=sum(counts.get((name, state), 0) for state in _FAILURES),
        died=counts.get((name, State.DEAD_LETTER), 0),
        lag=max(lags, default=0),
        waited_ms=0 if waiting is None else max(0, now_ms - waiting.eligible_at_ms),
        event_pk=newest,
    )


def curves(namespace: str, *, now_ms: int) -> list[Curve]:
    """Return throughput, failures and lag of the last hour; nothing where no minute of it was counted."""
    last = now_ms // MINUTE_MS * MINUTE_MS - MINUTE_MS
    first = last - (SHOWN_MINUTES - 1) * MINUTE_MS
    rows = list(Sample.objects.filter(namespace=namespace, minute_ms__gte=first, minute_ms__lte=last))
    by_minute = {(row.minute_ms - first) // MINUTE_MS: row for row in rows}
    if not by_minute:
        return []
    figures: tuple[tuple[str, bool, Callable[[Sample], int]], ...] = (
        ("attempts succeeded a minute", False, lambda row: row.succeeded),
        ("attempts failed a minute", True, lambda row: row.failed),
        ("operations the slowest trigger is behind", False, lambda row: row.lag),
    )
    return [
        curve(label, {minute: value(row) for minute, row in by_minute.items()}, bad=bad)
        for label, bad, value in figures
    ]


def curve(label: str, values: dict[int, int], *, bad: bool = False) -> Curve:
    """Return the curve of values by minute, 0 to SHOWN_MINUTES - 1; a minute that is missing parts it. Not empty."""
    most = max(values.values())
    step, scale = _WIDTH / (SHOWN_MINUTES - 1), (_HEIGHT - 4) / max(most, 1)
    pieces: list[list[tuple[float, float]]] = []
    previous = None
    for minute in sorted(values):
        if previous is None or minute != previous + 1:
            pieces.append([])
        pieces[-1].append((minute * step, _HEIGHT - 2 - values[minute] * scale))
        previous = minute
    last = values[max(values)]
    return Curve(
        label=label,
        shown_last=f"{last:,}",
        shown_most=f"{most:,}",
        pieces=[_piece(points) for points in pieces],
        told=f"{label}: {last} in the last minute that was counted, at most {most} in the last hour",
        bad=bad,
    )


def _piece(points: list[tuple[float, float]]) -> Piece:
    if len(points) == 1:
        x, y = points[0]
        points = [(max(0.0, x - 1), y), (min(float(_WIDTH), x + 1), y)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Piece(line, f"{points[0][0]:.1f},{_HEIGHT} {line} {points[-1][0]:.1f},{_HEIGHT}")
