"""The state machine as a picture: where each state stands, an arrow for each move, the path work has taken.

Pure geometry from `machine.TABLE`; a template makes SVG of it. Units are SVG user units, the origin is top left.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.workloads.machine import TABLE
from apps.workloads.states import State

WIDTH, HEIGHT = 1_080, 330
_BOX_W, _BOX_H = 132, 34
_COLUMNS, _ROWS = (76, 260, 444, 628, 812, 996), (40, 165, 290)
_BEND = 16
"""How far an arrow swerves from the straight line, so that there and back are two lines."""

_S = State
PLACES = {
    _S.CREATED: (0, 1),
    _S.AWAITING_APPROVAL: (1, 0),
    _S.REJECTED: (2, 0),
    _S.READY: (1, 1),
    _S.CLAIMED: (2, 1),
    _S.RUNNING: (3, 1),
    _S.CHECKPOINTED: (4, 1),
    _S.SUCCEEDED: (5, 1),
    _S.CANCELLATION_REQUESTED: (3, 0),
    _S.CANCELLED: (5, 0),
    _S.RECOVERING: (2, 2),
    _S.FAILED: (3, 2),
    _S.TIMED_OUT: (4, 2),
    _S.DEAD_LETTER: (5, 2),
}
"""Column and row of each state: the way of work that succeeds runs along the middle."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A state. `x`, `y` are its centre; `kind` is plain, passed or current."""

    state: State
    x: int
    y: int
    kind: str

    @property
    def left(self) -> float:
        """Return the left edge."""
        return self.x - _BOX_W / 2

    @property
    def top(self) -> float:
        """Return the upper edge."""
        return self.y - _BOX_H / 2

    width = _BOX_W
    height = _BOX_H

    @property
    def lines(self) -> list[tuple[str, int]]:
        """Return the name in one or two lines, each with the y it is written at."""
        words = str(self.state).replace("_", " ").lower().split()
        if sum(map(len, words)) < 16:
            return [(" ".join(words), self.y + 4)]
        return [(words[0], self.y - 2), (" ".join(words[1:]), self.y + 11)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrow:
    """A move: its curve, the three points of its head, and how often the work has made it."""

    path: str
    head: str
    events: str
    times: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """Everything to draw, arrows that were taken last, so that they lie on top."""

    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    told: str
    width: int = WIDTH
    height: int = HEIGHT


def picture(current: State | str, path: Iterable[tuple[str, str]]) -> Picture:
    """Return the picture of work that is `current` and has made the moves of `path`, each (from, to)."""
    taken: dict[tuple[str, str], int] = {}
    for move in path:
        taken[move] = taken.get(move, 0) + 1
    passed = {state for move in taken for state in move}
    boxes = [
        Box(
            state=state,
            x=_COLUMNS[column],
            y=_ROWS[row],
            kind="current" if state == current else "passed" if state in passed else "plain",
        )
        for state, (column, row) in PLACES.items()
    ]
    events: dict[tuple[State, State], list[str]] = {}
    for each in TABLE:
        events.setdefault((each.source, each.target), []).append(each.event)
    arrows = [
        _arrow(source, target, ", ".join(dict.fromkeys(names)), taken.get((source, target), 0))
        for (source, target), names in events.items()
        if source != target
    ]
    told = f"The work is {_words(current)}."
    if taken:
        told += " It went " + "; ".join(
            f"from {_words(source)} to {_words(target)}{'' if times == 1 else f' {times} times'}"
            for (source, target), times in taken.items()
        )
    return Picture(boxes=boxes, arrows=sorted(arrows, key=lambda arrow: arrow.times > 0), told=told)


def _words(state: str) -> str:
    return str(state).replace("_", " ").lower()


def _arrow(source: State, target: State, events: str, times: int) -> Arrow:
    (from_column, from_row), (to_column, to_row) = PLACES[source], PLACES[target]
    x1, y1, x2, y2 = _COLUMNS[from_column], _ROWS[from_row], _COLUMNS[to_column], _ROWS[to_row]
    dx, dy = x2 - x1, y2 - y1
    length = math.hypot(dx, dy)
    far = abs(from_column - to_column) > 1 and from_row == to_row
    bend = 3.4 * _BEND if far else _BEND  # in one row: around the boxes between
    middle = ((x1 + x2) / 2 - dy / length * bend, (y1 + y2) / 2 + dx / length * bend)
    start, end = _border((x1, y1), middle), _border((x2, y2), middle)
    angle = math.atan2(end[1] - middle[1], end[0] - middle[0])
    head = [end] + [
        (end[0] - 9 * math.cos(angle + turn), end[1] - 9 * math.sin(angle + turn)) for turn in (-0.42, 0.42)
    ]
    return Arrow(
        path=f"M{_point(start)} Q{_point(middle)} {_point(end)}",
        head=" ".join(map(_point, head)),
        events=f"{_words(source)} to {_words(target)}: {events}",
        times=times,
    )


def _border(centre: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
    """Return where the line from a box's centre towards a point leaves the box."""
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    across = (_BOX_W / 2) / abs(dx) if dx else math.inf
    down = (_BOX_H / 2) / abs(dy) if dy else math.inf
    part = min(across, down)
    return centre[0] + dx * part, centre[1] + dy * part


def _point(point: tuple[float, float]) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"
