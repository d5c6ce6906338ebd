"""Questions about state, read from request bodies and query strings into frozen values: queries, searches, history.

Not here: writes and pages (`inputs.py`), and what the answers are (`services/`).
"""

from dataclasses import dataclass
from typing import Any

from apps.http.errors import ApiError
from apps.state import reading
from apps.state.limits import (
    PAGE_DEFAULT,
    PAGE_MAX,
    QUERY_CONDITIONS,
    QUERY_ORDER_FIELDS,
    QUERY_SELECT_FIELDS,
    SEARCH_DEFAULT,
    SEARCH_MAX,
)
from apps.state.reading import ABSENT, invalid
from feltdb_engine import Predicate
from feltdb_engine.limits import BASIS_MAX_PREDICATES, BASIS_MAX_RECORDS, INDEX_MAX_FIELDS, SEARCH_TEXT_MAX_CHARS

_FIELD_BYTES = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What to look for. `where` is the engine's tree, None for everything; `select` the paths to keep.

    `count` asks how many match in all; then `limit` may be 0, for the number alone. `as_of` is an earlier revision.
    """

    collection: str
    where: dict[str, Any] | None
    order_by: tuple[tuple[str, str], ...]
    limit: int
    cursor: str | None
    select: tuple[str, ...] | None
    count: bool
    as_of: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """Text to look for in every string of a collection's values, whatever its case."""

    text: str
    limit: int
    cursor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Basis:
    """What a later commit is to rest on: records, as collection and id, and conditions over collections."""

    records: tuple[tuple[str, str], ...]
    predicates: tuple[Predicate, ...]


_QUERY = frozenset(
    {"collection", "where", "orderBy", "order_by", "limit", "cursor", "select", "count"} | {"asOf", "as_of"}
)


def query(body: Any) -> Query:
    """Read the body of a query."""
    members = reading.an_object(body, "", _QUERY)
    order = reading.one_of(members, "orderBy", "order_by", "")
    count = reading.flag(members.get("count", ABSENT), "/count")
    as_of = reading.one_of(members, "asOf", "as_of", "")
    return Query(
        collection=reading.collection_name(members.get("collection"), pointer="/collection"),
        where=_where(members.get("where")),
        order_by=_order(order),
        limit=_limit(members, PAGE_DEFAULT, low=0 if count else 1, high=PAGE_MAX),
        cursor=_cursor(members),
        select=_select(members.get("select")),
        count=count,
        as_of=None if as_of is ABSENT or as_of is None else reading.whole(as_of, "/asOf", low=0),
    )


_SEARCH = frozenset({"query", "limit", "cursor"})


def search(body: Any) -> Search:
    """Read the body of a search."""
    members = reading.an_object(body, "", _SEARCH)
    text = members.get("query")
    if type(text) is not str or not 1 <= len(text) <= SEARCH_TEXT_MAX_CHARS:
        raise invalid(f"A text of 1 to {SEARCH_TEXT_MAX_CHARS} characters is needed here.", pointer="/query")
    return Search(text=text, limit=_limit(members, SEARCH_DEFAULT, low=1, high=SEARCH_MAX), cursor=_cursor(members))


_BASIS = frozenset({"records", "predicates"})
_READ = frozenset({"collection", "id"})
_PREDICATE = frozenset({"collection", "where"})


def basis(body: Any) -> Basis:
    """Read the body of a read basis."""
    members = reading.an_object(body, "", _BASIS)
    records = reading.an_array(members.get("records", []), "/records", at_most=BASIS_MAX_RECORDS)
    predicates = reading.an_array(members.get("predicates", []), "/predicates", at_most=BASIS_MAX_PREDICATES)
    if not records and not predicates:
        raise invalid("A read basis names at least one record or predicate.", pointer="")
    return Basis(
        records=tuple(_read(item, f"/records/{at}") for at, item in enumerate(records)),
        predicates=tuple(_predicate(item, f"/predicates/{at}") for at, item in enumerate(predicates)),
    )


def _read(item: Any, pointer: str) -> tuple[str, str]:
    members = reading.an_object(item, pointer, _READ)
    collection = reading.collection_name(members.get("collection"), pointer=f"{pointer}/collection")
    return collection, reading.record_id(members.get("id"), pointer=f"{pointer}/id")


def _predicate(item: Any, pointer: str) -> Predicate:
    members = reading.an_object(item, pointer, _PREDICATE)
    collection = reading.collection_name(members.get("collection"), pointer=f"{pointer}/collection")
    return Predicate(collection=collection, where=_where(members.get("where"), f"{pointer}/where"))


_INDEX = frozenset({"fields"})


def index_fields(body: Any) -> tuple[str, ...]:
    """Read the body of an index declaration: the paths it is over, in their order."""
    members = reading.an_object(body, "", _INDEX)
    fields = reading.an_array(members.get("fields"), "/fields", at_most=INDEX_MAX_FIELDS)
    if not fields:
        raise invalid("An index is over at least one field.", pointer="/fields")
    return tuple(reading.text(item, f"/fields/{at}", max_bytes=_FIELD_BYTES) for at, item in enumerate(fields))


def _limit(members: dict[str, Any], default: int, *, low: int, high: int) -> int:
    limit = members.get("limit", ABSENT)
    return default if limit is ABSENT else reading.whole(limit, "/limit", low=low, high=high)


def _cursor(members: dict[str, Any]) -> str | None:
    cursor = members.get("cursor")
    if cursor is not None and type(cursor) is not str:
        raise invalid("A cursor is a string.", pointer="/cursor")
    return cursor


def _where(value: Any, pointer: str = "/where") -> dict[str, Any] | None:
    if value is None:
        return None
    if type(value) is list:
        items = reading.an_array(value, pointer, at_most=QUERY_CONDITIONS)
        return {"all": [_condition(item, f"{pointer}/{at}") for at, item in enumerate(items)]} if items else None
    if type(value) is dict and not value:
        return None
    return _condition(value, pointer)


_SHORT_OPERATORS = {
    "eq": "eq",
    "ne": "ne",
    "neq": "ne",
    "lt": "lt",
    "lte": "lte",
    "gt": "gt",
    "gte": "gte",
    "in": "in",
    "contains": "contains",
    "starts_with": "starts_with",
    "startsWith": "starts_with",
    "exists": "exists",
}


def _condition(item: Any, pointer: str) -> dict[str, Any]:
    """Return one node of the tree in the engine's form; the engine judges operators, paths and values."""
    if type(item) is not dict:
        raise ApiError("INVALID_QUERY", "A condition is an object.", details={"pointer": pointer})
    for name in ("all", "any"):
        if name in item and len(item) == 1:
            items = reading.an_array(item[name], f"{pointer}/{name}", at_most=QUERY_CONDITIONS)
            return {name: [_condition(each, f"{pointer}/{name}/{at}") for at, each in enumerate(items)]}
    if "not" in item and len(item) == 1:
        return {"not": _condition(item["not"], f"{pointer}/not")}
    if "op" in item:
        operator = item["op"]
        return {**item, "op": _SHORT_OPERATORS.get(operator, operator) if type(operator) is str else operator}
    operators = [name for name in item if name != "field"]
    if "field" in item and len(operators) == 1 and operators[0] in _SHORT_OPERATORS:
        return {"field": item["field"], "op": _SHORT_OPERATORS[operators[0]], "value": item[operators[0]]}
    raise ApiError(
        "INVALID_QUERY",
        "A condition is {field, op, value}, {field, <one operator>: value}, {all: [...]}, {any: [...]} or {not: ...}.",
        details={"pointer": pointer},
    )


_ORDER = frozenset({"field", "direction"})


def _order(value: Any) -> tuple[tuple[str, str], ...]:
    if value is ABSENT or value is None:
        return ()
    found: list[tuple[str, str]] = []
    for at, item in enumerate(reading.an_array(value, "/orderBy", at_most=QUERY_ORDER_FIELDS)):
        members = reading.an_object(item, f"/orderBy/{at}", _ORDER)
        field = reading.text(members.get("field"), f"/orderBy/{at}/field", max_bytes=_FIELD_BYTES)
        direction = members.get("direction", "asc")
        if direction not in ("asc", "desc"):
            raise invalid("A direction is 'asc' or 'desc'.", pointer=f"/orderBy/{at}/direction")
        found.append((field, direction))
    return tuple(found)


def _select(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    items = reading.an_array(value, "/select", at_most=QUERY_SELECT_FIELDS)
    return tuple(reading.text(item, f"/select/{at}", max_bytes=_FIELD_BYTES) for at, item in enumerate(items))
