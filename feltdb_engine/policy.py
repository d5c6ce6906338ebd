"""How much history a compaction keeps, and what that means for a given log. Pure.

History goes where it is older than `age_ms`, or lies beyond the newest `bytes`; never what a pin or the caller's
`retain_from` still needs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from feltdb_engine.frame import Chain
from feltdb_engine.model import Pin

_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """What compaction may forget.

    `age_ms` and `bytes` of history (None: this alone lets nothing go). Transaction ids are remembered for `ids_age_ms`
    (None: for ever) or up to the newest `ids_count`, whichever is more.
    """

    age_ms: int | None = 30 * _DAY_MS
    bytes: int | None = None
    ids_age_ms: int | None = 30 * _DAY_MS
    ids_count: int = 10_000_000

    def __post_init__(self) -> None:
        """Raises ValueError for what is not a number of 0 or more."""
        for one in fields(self):
            value = getattr(self, one.name)
            if (value is None and one.name != "ids_count") or (type(value) is int and value >= 0):
                continue
            raise ValueError(f"{one.name} is an integer, 0 or more.")


class Boundary(NamedTuple):
    """A place where the log could begin: the chain there, and the bytes of the files from there on."""

    start: Chain
    bytes_after: int


class Hold(NamedTuple):
    """Something that needs every operation after `sequence`; `by` names it."""

    sequence: int
    by: str


def holds(pins: Iterable[Pin], retain_from: int | None) -> list[Hold]:
    """All that holds history, whoever needs the oldest first."""
    found = [Hold(one.sequence, f"pin {one.name}") for one in pins]
    if retain_from is not None:
        found.append(Hold(retain_from, "retain_from"))
    return sorted(found)


def furthest(
    boundaries: Sequence[Boundary], policy: Retention, held: Sequence[Hold], now_ms: int
) -> tuple[Boundary | None, Hold | None]:
    """The last of the boundaries (ascending) before which everything may go, and what held more back."""
    allowed = [one for one in boundaries if _lets_go(policy, one, now_ms)]
    if not held:
        return (allowed[-1] if allowed else None), None
    first = held[0]
    free = [one for one in allowed if one.start.sequence <= first.sequence]
    return (free[-1] if free else None), (first if len(free) < len(allowed) else None)


def _lets_go(policy: Retention, boundary: Boundary, now_ms: int) -> bool:
    by_age = policy.age_ms is not None and boundary.start.at_ms <= now_ms - policy.age_ms
    by_bytes = policy.bytes is not None and boundary.bytes_after >= policy.bytes
    return by_age or by_bytes
