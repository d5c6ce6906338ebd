"""Conditions over records: a tree of dicts, compiled into one function of a decoded value.

    {"field": "a.b", "op": "gte", "value": 3}     eq ne lt lte gt gte in contains starts_with exists
    {"all": [tree, ...]}  {"any": [tree, ...]}  {"not": tree}

Types are never coerced: 1 is not 1.0 for `eq`, and a string is never compared with a number. `lt lte gt gte` compare
numbers with numbers (by their mathematical value) and strings with strings (by code point); anything else is false. A
missing field differs from null: it equals nothing, so `ne` and `not` are true of it. `contains` is a substring of a
string or a member of a list.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from feltdb_engine import limits
from feltdb_engine.errors import InvalidQuery
from feltdb_engine.ordering import MISSING
from feltdb_engine.values import explain, same_json

Test = Callable[[Mapping[str, Any]], bool]

_EXACT: Final = 1 << 53
_SCALARS = (str, bool, int, float, type(None))


def compile_where(where: Mapping[str, Any] | None) -> Test:
    """The function that says whether a value matches. Raises InvalidQuery with the place of the first fault."""
    if where is None:
        return lambda _value: True
    return _plain_equalities(where) or _Compiler().tree(where, "", 1)


def _plain_equalities(where: Mapping[str, Any]) -> Test | None:
    """What most queries are: some members equal to text or whole numbers. None for all others, and for faults."""
    if type(where) is not dict:
        return None
    nodes = where["all"] if len(where) == 1 and "all" in where else (where,)
    if type(nodes) not in (list, tuple) or not 1 <= len(nodes) < limits.WHERE_MAX_TERMS:
        return None
    terms = []
    for node in nodes:
        if type(node) is not dict or len(node) != 3 or node.get("op") != "eq":
            return None
        path: Any = node.get("field")
        wanted: Any = node.get("value")
        if type(path) is not str or not 0 < len(path) <= limits.FIELD_MAX_CHARS or "." in path:
            return None
        kind = type(wanted)
        if not (wanted.isascii() and "\0" not in wanted if kind is str else kind is int and abs(wanted) < _EXACT):
            return None
        terms.append((path, wanted, kind))

    def every(value: Mapping[str, Any]) -> bool:
        for path, wanted, kind in terms:
            found = value.get(path)
            if found != wanted or type(found) is not kind:
                return False
        return True

    return every


def field_of(path: object, pointer: str) -> Callable[[Mapping[str, Any]], Any]:
    """The function that reads a dotted path, giving MISSING where it leads nowhere."""
    path = check_field(path, pointer)
    if "." not in path:
        return lambda value: value.get(path, MISSING)
    steps = path.split(".")

    def read(value: Any) -> Any:
        for step in steps:
            if type(value) is not dict or step not in value:
                return MISSING
            value = value[step]
        return value

    return read


def check_field(path: object, pointer: str) -> str:
    """The path, if it is one. Raises InvalidQuery."""
    if type(path) is not str or not path or len(path) > limits.FIELD_MAX_CHARS:
        raise InvalidQuery("A field is a dotted path of member names.", pointer=pointer)
    return path


class _Compiler:
    def __init__(self) -> None:
        self._terms = 0

    def tree(self, node: object, pointer: str, depth: int) -> Test:
        if not isinstance(node, Mapping) or not node:
            raise InvalidQuery("A condition is an object.", pointer=pointer)
        self._terms += 1
        if self._terms > limits.WHERE_MAX_TERMS or depth > limits.WHERE_MAX_DEPTH:
            raise InvalidQuery(
                f"A query has at most {limits.WHERE_MAX_TERMS} conditions, {limits.WHERE_MAX_DEPTH} deep.",
                pointer=pointer,
            )
        names = set(node)
        if names == {"not"}:
            inner = self.tree(node["not"], pointer + "/not", depth + 1)
            return lambda value: not inner(value)
        if names in ({"all"}, {"any"}):
            (name,) = names
            tests = self._branches(node[name], f"{pointer}/{name}", depth)
            return _every(tests) if name == "all" else _some(tests)
        return self._term(node, pointer)

    def _branches(self, nodes: object, pointer: str, depth: int) -> list[Test]:
        if not isinstance(nodes, Sequence) or isinstance(nodes, str) or not nodes:
            raise InvalidQuery("all and any take a list of conditions.", pointer=pointer)
        return [self.tree(node, f"{pointer}/{index}", depth + 1) for index, node in enumerate(nodes)]

    def _term(self, node: Mapping[str, Any], pointer: str) -> Test:
        if set(node) != {"field", "op", "value"}:
            raise InvalidQuery("A condition has field, op and value.", pointer=pointer)
        read = field_of(node["field"], pointer + "/field")
        op = node["op"]
        make = _OPS.get(op) if isinstance(op, str) else None
        if make is None:
            raise InvalidQuery("The ops are " + ", ".join(_OPS) + ".", pointer=pointer + "/op")
        explain(node["value"], pointer + "/value")
        test = make(node["value"], pointer + "/value")
        return lambda value: test(read(value))


def _every(tests: Sequence[Test]) -> Test:
    def every(value: Mapping[str, Any]) -> bool:
        for test in tests:  # a loop of our own costs less than a generator for each value
            if not test(value):
                return False
        return True

    return every


def _some(tests: Sequence[Test]) -> Test:
    def some(value: Mapping[str, Any]) -> bool:
        for test in tests:
            if test(value):
                return True
        return False

    return some


def _eq(wanted: Any, _pointer: str) -> Callable[[Any], bool]:
    if isinstance(wanted, _SCALARS):
        kind = type(wanted)
        return lambda found: type(found) is kind and found == wanted
    return lambda found: same_json(found, wanted)


def _ne(wanted: Any, pointer: str) -> Callable[[Any], bool]:
    same = _eq(wanted, pointer)
    return lambda found: not same(found)


def _range(compare: Callable[[Any, Any], bool]) -> Callable[[Any, str], Callable[[Any], bool]]:
    def make(wanted: Any, pointer: str) -> Callable[[Any], bool]:
        if type(wanted) is str:
            return lambda found: type(found) is str and compare(found, wanted)
        if type(wanted) in (int, float):
            return lambda found: type(found) in (int, float) and compare(found, wanted)
        raise InvalidQuery("Ranges compare numbers or strings.", pointer=pointer)

    return make


def _in(wanted: Any, pointer: str) -> Callable[[Any], bool]:
    if not isinstance(wanted, list | tuple) or len(wanted) > limits.WHERE_IN_MAX_VALUES:
        raise InvalidQuery(f"in takes a list of at most {limits.WHERE_IN_MAX_VALUES} values.", pointer=pointer)
    scalars = {(type(one), one) for one in wanted if isinstance(one, _SCALARS)}
    others = [one for one in wanted if not isinstance(one, _SCALARS)]

    def test(found: Any) -> bool:
        if isinstance(found, _SCALARS):
            return (type(found), found) in scalars
        return any(same_json(found, one) for one in others)

    return test


def _contains(wanted: Any, pointer: str) -> Callable[[Any], bool]:
    same = _eq(wanted, pointer)

    def test(found: Any) -> bool:
        if type(found) is str:
            return type(wanted) is str and wanted in found
        return type(found) is list and any(same(member) for member in found)

    return test


def _starts_with(wanted: Any, pointer: str) -> Callable[[Any], bool]:
    if type(wanted) is not str:
        raise InvalidQuery("starts_with takes a string.", pointer=pointer)
    return lambda found: type(found) is str and found.startswith(wanted)


def _exists(wanted: Any, pointer: str) -> Callable[[Any], bool]:
    if type(wanted) is not bool:
        raise InvalidQuery("exists takes true or false.", pointer=pointer)
    return lambda found: (found is not MISSING) is wanted


_OPS: Final[dict[str, Callable[[Any, str], Callable[[Any], bool]]]] = {
    "eq": _eq,
    "ne": _ne,
    "lt": _range(lambda found, wanted: bool(found < wanted)),
    "lte": _range(lambda found, wanted: bool(found <= wanted)),
    "gt": _range(lambda found, wanted: bool(found > wanted)),
    "gte": _range(lambda found, wanted: bool(found >= wanted)),
    "in": _in,
    "contains": _contains,
    "starts_with": _starts_with,
    "exists": _exists,
}
