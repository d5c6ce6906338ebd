"""Declared programs at work: found in the store of the work's own namespace, run step by step.

What a program is and how it is checked: `apps/state/programs.py`. A record is read and checked anew for each attempt;
a program installed under the same name (`capabilities.py`) goes first.
"""

from collections.abc import Callable
from typing import Any

from apps.http import canonical_json
from apps.http.errors import ApiError
from apps.state import programs
from apps.state.programs import Step
from apps.state.stores import store
from apps.workloads.builtin import search
from apps.workloads.capabilities import JSON, Cancelled, Capability, Context, Failed
from feltdb_engine.errors import EngineError


def is_declared(namespace: str, name: str) -> bool:
    """Tell whether the namespace has a record of that name. A store that cannot be read now has none."""
    if not programs.is_name(name):
        return False
    try:
        return store(namespace).get(f"{programs.COLLECTION}:{name}") is not None
    except (EngineError, ApiError):
        return False


def find(namespace: str, name: str) -> Capability | None:
    """Return the declared program, None where there is no such record.

    Raises Failed of kind `invalid_program` for a record that no door of ours would have let in.
    """
    if not programs.is_name(name):
        return None
    record = store(namespace).get(f"{programs.COLLECTION}:{name}")
    if record is None:
        return None
    try:
        steps = programs.read_program(dict(record.value)).steps
    except ApiError as error:
        place = (error.details or {}).get("pointer", "")
        raise Failed("invalid_program", f"{name} is no program: {place} {error.message}") from error

    def run(input: JSON, context: Context) -> JSON:
        value = input
        for step in steps:
            if context.cancelled():
                raise Cancelled
            value = _STEPS[step.op](step, value, context)
        return value

    return Capability(name, run)


def _identity(step: Step, value: JSON, context: Context) -> JSON:
    return value


def _search(step: Step, value: JSON, context: Context) -> JSON:
    given = value if isinstance(value, dict) else {}
    asked = {name: given[name] for name in ("collection", "query", "limit") if name in given}
    return search({**asked, **step.members}, context)


def _filter_eq(step: Step, value: JSON, context: Context) -> JSON:
    wanted = canonical_json.dumps(step.members["value"])
    field = step.members["field"]
    return [
        item
        for item in _items(value, "filter_eq")
        if isinstance(item, dict) and field in item and canonical_json.dumps(item[field]) == wanted
    ]


def _project(step: Step, value: JSON, context: Context) -> JSON:
    fields = step.members["fields"]
    if isinstance(value, dict):
        return _kept(value, fields)
    return [_kept(item, fields) for item in _items(value, "project")]


def _kept(item: Any, fields: list[str]) -> JSON:
    return {name: item[name] for name in fields if name in item} if isinstance(item, dict) else item


def _limit(step: Step, value: JSON, context: Context) -> JSON:
    return _items(value, "limit")[: step.members["count"]]


def _items(value: JSON, op: str) -> list[Any]:
    if not isinstance(value, list):
        raise Failed("invalid_input", f"{op} was given no array")
    return value


_STEPS: dict[str, Callable[[Step, JSON, Context], JSON]] = {
    "identity": _identity,
    "search": _search,
    "filter_eq": _filter_eq,
    "project": _project,
    "limit": _limit,
}
