"""Whether what was read from a file is of the types its class says: JSON gives anything, and a dataclass takes it."""

import dataclasses
from typing import Any

MAX_WHOLE = 2**63 - 1
"""Of any position, size or sequence."""

MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def check(made: Any) -> None:
    """Raise ValueError where a text, a whole number or a tuple of texts is none, or a number is beyond all bounds.

    Members of other types (tuples of dataclasses, say) are for the caller to check one by one.
    """
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        if field.type is str:
            good = isinstance(value, str)
        elif field.type is int:
            good = _is_whole(value, MAX_MS if field.name.endswith("_ms") else MAX_WHOLE)
        elif field.type == tuple[str, ...]:
            good = all(isinstance(each, str) for each in value)
        else:
            good = True
        if not good:
            raise ValueError(f"{field.name} cannot be {value!r:.100}")


def check_whole(*numbers: Any) -> None:
    """Raise ValueError where one is no whole number, or beyond all bounds."""
    for number in numbers:
        if not _is_whole(number, MAX_WHOLE):
            raise ValueError(f"{number!r:.100} is no number of this place")


def _is_whole(value: Any, most: int) -> bool:
    return type(value) is int and 0 <= value <= most
