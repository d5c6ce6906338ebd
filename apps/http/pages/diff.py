"""What differs between two JSON values, member by member. Pure; `1`, `1.0` and `true` are three values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

MAX_DIFFERENCES = 200
"""Differences told of one pair of values; beyond, both values are there to be read."""

ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One place, as a JSON pointer (RFC 6901), and what was there before and after."""

    pointer: str
    kind: Literal["added", "removed", "changed"]
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True)
class Differences:
    """The first differences, in the order of the members; `more` where there are others."""

    found: tuple[Difference, ...]
    more: bool


def differences(before: Any, after: Any, *, limit: int = MAX_DIFFERENCES) -> Differences:
    """Return where two values differ. Members of objects are compared by name, items of arrays by place."""
    found = tuple(islice(_walk(before, after, ""), limit + 1))
    return Differences(found[:limit], len(found) > limit)


def _walk(before: Any, after: Any, pointer: str) -> Iterator[Difference]:
    if before is ABSENT:
        yield Difference(pointer, "added", after=after)
    elif after is ABSENT:
        yield Difference(pointer, "removed", before=before)
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from _walk(before.get(name, ABSENT), after.get(name, ABSENT), place)
    elif _is_array(before) and _is_array(after):
        for number in range(max(len(before), len(after))):
            one = before[number] if number < len(before) else ABSENT
            other = after[number] if number < len(after) else ABSENT
            yield from _walk(one, other, f"{pointer}/{number}")
    elif type(before) is not type(after) or before != after:
        yield Difference(pointer, "changed", before, after)


def _is_array(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
