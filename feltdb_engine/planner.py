"""Choosing an index for a query: which one, over which ranges of its keys, and what order they come in.

Only conditions that must hold (the query itself, or the members of an `all`) choose; every candidate is tested against
the whole query afterwards, so a range may be too wide but never too narrow.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from feltdb_engine import limits
from feltdb_engine.indexes import Maintained
from feltdb_engine.ordering import AFTER, NUMBER, STRING, component

Mode = Literal["stream", "ids", "collect"]


class Access(NamedTuple):
    """How to use an index.

    `stream`: the one range has the query's order, group by group (`indexscan.py`); `ids`: gather ids and sort them;
    `collect`: test all, keep the best. `fixed` components are equal in the whole range, `ordered` ones follow.
    """

    by: Maintained
    mode: Mode
    ranges: tuple[tuple[bytes, bytes], ...]
    fixed: bytes
    ordered: int
    reverse: bool


def choose(
    indexes: Sequence[Maintained], where: Mapping[str, Any] | None, order_by: Sequence[tuple[str, str]]
) -> Access | None:
    """The best access there is; None = scan."""
    if not indexes:
        return None
    terms: dict[str, list[tuple[str, Any]]] = {}
    if where is not None:
        _require(terms, where)
    best: tuple[tuple[int, int, int], Access] | None = None
    for index in indexes:
        if index.definition.progress is not None or index.definition.exact:
            continue
        found = _access(index, terms, order_by)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return None if best is None else best[1]


def _require(terms: dict[str, list[tuple[str, Any]]], where: Mapping[str, Any]) -> None:
    """Gather by field what must hold of it."""
    if "field" in where:
        terms.setdefault(where["field"], []).append((where["op"], where["value"]))
    elif "all" in where:
        for one in where["all"]:
            _require(terms, one)


def _access(
    index: Maintained, terms: Mapping[str, list[tuple[str, Any]]], order_by: Sequence[tuple[str, str]]
) -> tuple[tuple[int, int, int], Access] | None:
    fields, size = index.definition.fields, index.text_bytes
    prefixes, equal = [index.definition.prefix], 0
    for field in fields:
        choices = _choices(terms.get(field, ()), size)
        if choices is None or len(prefixes) * len(choices) > limits.INDEX_MAX_RANGES:
            break
        prefixes = [prefix + choice for prefix in prefixes for choice in choices]
        equal += 1
    low, high = b"", AFTER
    if equal < len(fields):
        low, high = _bounds(terms.get(fields[equal], ()), size)
    ranged = low != b"" or high != AFTER
    one = len(prefixes) == 1
    wanted: tuple[str, ...] = ()
    directions: set[str] = set()
    if order_by:
        wanted, directions = tuple([field for field, _ in order_by]), {direction for _, direction in order_by}
        served = one and len(directions) == 1 and fields[equal : equal + len(wanted)] == wanted
    else:
        served = one and equal == len(fields)
    if not (equal or ranged or (served and wanted)):
        return None
    mode: Mode = "stream" if served else "collect" if wanted else "ids"
    ranges = tuple([(prefix + low, prefix + high) for prefix in sorted(prefixes)]) if low < high else ()
    access = Access(index, mode, ranges, prefixes[0] if one else b"", len(wanted), "desc" in directions)
    return (equal, int(ranged), int(served)), access


def _choices(terms: Sequence[tuple[str, Any]], size: int) -> list[bytes] | None:
    """The components a field must have one of; None where nothing says so."""
    if len(terms) == 1 and terms[0][0] == "eq":
        return [component(terms[0][1], size)[0]]
    found: set[bytes] | None = None
    for op, value in terms:
        if op not in ("eq", "in"):
            continue
        these = {component(one, size)[0] for one in (value if op == "in" else (value,))}
        found = these if found is None else found & these
    return None if found is None else sorted(found)


def _bounds(terms: Sequence[tuple[str, Any]], size: int) -> tuple[bytes, bytes]:
    """The lowest and the beyond-highest component a field may have."""
    low, high = b"", AFTER
    for op, value in terms:
        if op in ("lt", "lte", "gt", "gte"):
            edge, tag = component(value, size)[0], STRING if type(value) is str else NUMBER
            from_here = op in ("gt", "gte")
            low = max(low, edge if from_here else tag)
            high = min(high, bytes((tag[0] + 1,)) if from_here else edge + AFTER)
        elif op == "starts_with":
            begin = STRING + value.encode()[:size]
            low, high = max(low, begin), min(high, begin + AFTER)
    return low, high
