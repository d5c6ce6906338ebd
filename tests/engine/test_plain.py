"""What a file says is of the types that its class says, or it is refused before anything is done with it."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from feltdb_engine import plain


@dataclass(frozen=True, kw_only=True)
class Note:
    name: str
    size: int
    made_at_ms: int
    tags: tuple[str, ...]
    inner: dict[str, int]


GOOD = Note(name="a", size=plain.MAX_WHOLE, made_at_ms=plain.MAX_MS, tags=("x", "y"), inner={})


def test_what_is_of_its_types_passes_and_members_of_other_types_are_the_callers() -> None:
    plain.check(GOOD)
    plain.check(replace(GOOD, size=0, made_at_ms=0, tags=(), inner={"any": 1}))
    plain.check_whole()
    plain.check_whole(0, plain.MAX_WHOLE)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("name", value) for value in (None, 1, b"a", ["a"])),
        *(("size", value) for value in (None, "1", 1.0, True, -1, plain.MAX_WHOLE + 1)),
        *(("made_at_ms", value) for value in ("1", False, -1, plain.MAX_MS + 1)),
        *(("tags", value) for value in ((1,), ("x", None))),
    ],
)
def test_what_is_not_is_refused_by_its_name(member: str, value: Any) -> None:
    with pytest.raises(ValueError, match=member):
        plain.check(replace(GOOD, **{member: value}))


@pytest.mark.parametrize("number", [None, "1", 1.0, True, -1, plain.MAX_WHOLE + 1])
def test_a_number_of_no_place_is_refused(number: Any) -> None:
    with pytest.raises(ValueError, match="no number of this place"):
        plain.check_whole(0, number)
