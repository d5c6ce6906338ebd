"""Declared programs: records of `_flow_capabilities`, each `{"steps": [...]}`, and the one check every door makes.

| op        | members                           | meaning                                                             |
|-----------|-----------------------------------|---------------------------------------------------------------------|
| identity  |                                   | pass the value on                                                   |
| search    | `collection`?, `query`?, `limit`? | records with this text; members left out come from the value        |
| filter_eq | `field`, `value`                  | keep the items of an array whose member equals it, type and all     |
| project   | `fields`                          | keep these members, of an object or of every object in an array     |
| limit     | `count`                           | the first so many items of an array                                 |

Each step is given what the one before gave; the first one the input. They read and never write. Pure; who runs them:
`apps/workloads/declared.py`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.state import reading
from apps.state.limits import (
    PROGRAM_FIELDS,
    PROGRAM_LIMIT_MAX,
    PROGRAM_NAME_CHARS,
    PROGRAM_QUERY_CHARS,
    PROGRAM_STEPS,
    SEARCH_MAX,
)
from apps.state.reading import invalid

COLLECTION = "_flow_capabilities"
BUILT_IN = frozenset({"identity", "search"})
"""Names that declared programs cannot take."""

_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{PROGRAM_NAME_CHARS}}}\Z")
_FIELD_BYTES = 256


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it does and its own members, as they were given."""

    op: str
    members: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was checked."""

    steps: tuple[Step, ...]

    def record(self) -> dict[str, Any]:
        """Return the program as it is stored."""
        return {"steps": [{"op": step.op, **step.members} for step in self.steps]}


def is_name(name: str) -> bool:
    """Tell whether a declared program can have this name."""
    return _NAME.match(name) is not None and name not in BUILT_IN


def read_name(name: str, *, field: str = "name") -> str:
    """Return the name. Raises VALIDATION_ERROR for one that no declared program can have."""
    if not is_name(name):
        raise invalid(
            f"A program's name is 1 to {PROGRAM_NAME_CHARS} letters, digits, '_' and '-', and none of "
            f"{', '.join(sorted(BUILT_IN))}.",
            field=field,
        )
    return name


def read_program(body: Any) -> Program:
    """Return the program a body or a record holds. Raises VALIDATION_ERROR with the pointer of what does not fit."""
    steps = reading.an_array(
        reading.an_object(body, "", frozenset({"steps"})).get("steps"), "/steps", at_most=PROGRAM_STEPS
    )
    if not steps:
        raise invalid("A program has at least one step.", pointer="/steps")
    return Program(tuple(_step(each, f"/steps/{index}") for index, each in enumerate(steps)))


def _step(value: Any, pointer: str) -> Step:
    if type(value) is not dict:
        raise invalid("A step is an object.", pointer=pointer)
    op = value.get("op")
    if type(op) is not str or op not in _CHECKS:
        raise invalid(f"Must be one of {', '.join(_CHECKS)}.", pointer=f"{pointer}/op")
    members, check = _CHECKS[op]
    reading.an_object(value, pointer, frozenset({"op", *members}))
    check(value, pointer)
    return Step(op, {name: value[name] for name in members if name in value})


def _check_search(step: dict[str, Any], pointer: str) -> None:
    if "collection" in step:
        name = reading.collection_name(step["collection"], pointer=f"{pointer}/collection")
        if name.startswith("_"):
            raise invalid("Programs do not read system collections.", pointer=f"{pointer}/collection")
    if "query" in step:
        query = step["query"]
        if type(query) is not str or not 1 <= len(query) <= PROGRAM_QUERY_CHARS:
            raise invalid(f"Text of 1 to {PROGRAM_QUERY_CHARS} characters.", pointer=f"{pointer}/query")
    if "limit" in step:
        reading.whole(step["limit"], f"{pointer}/limit", low=1, high=SEARCH_MAX)


def _check_filter(step: dict[str, Any], pointer: str) -> None:
    reading.text(step.get("field"), f"{pointer}/field", max_bytes=_FIELD_BYTES)
    if "value" not in step:
        raise invalid("A filter names the value to equal.", pointer=f"{pointer}/value")


def _check_project(step: dict[str, Any], pointer: str) -> None:
    fields = reading.an_array(step.get("fields"), f"{pointer}/fields", at_most=PROGRAM_FIELDS)
    if not fields:
        raise invalid("At least one member is kept.", pointer=f"{pointer}/fields")
    for index, field in enumerate(fields):
        reading.text(field, f"{pointer}/fields/{index}", max_bytes=_FIELD_BYTES)


def _check_limit(step: dict[str, Any], pointer: str) -> None:
    reading.whole(step.get("count"), f"{pointer}/count", low=0, high=PROGRAM_LIMIT_MAX)


_CHECKS: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any], str], None]]] = {
    "identity": ((), lambda step, pointer: None),
    "search": (("collection", "query", "limit"), _check_search),
    "filter_eq": (("field", "value"), _check_filter),
    "project": (("fields",), _check_project),
    "limit": (("count",), _check_limit),
}
