"""Queries over one collection. How they are planned and bounded is the engine's business."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.http.errors import ApiError
from apps.state import cursors
from apps.state.calls import Call
from apps.state.inputs import Query
from apps.state.services.doors import may_read
from apps.state.stores import store
from feltdb_engine import Record
from feltdb_engine.errors import ScanLimitExceeded

_MISSING = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Records that match, their values cut to the selection, how they were found, and where to go on."""

    records: tuple[Record, ...]
    next_cursor: str | None
    exhausted: bool
    plan: Mapping[str, Any]
    revision: int


def run(call: Call, wanted: Query) -> Found:
    """Return one page. Raises INVALID_QUERY, INVALID_CURSOR, SCAN_LIMIT_EXCEEDED (with the cursor to go on from)."""
    may_read(call, wanted.collection)
    opened = store(call.namespace)
    bound_to = cursors.binding("query", call.namespace, wanted.collection, wanted.where, wanted.order_by)
    revision = opened.head().sequence
    try:
        result = opened.query(
            wanted.collection,
            where=wanted.where,
            order_by=wanted.order_by,
            limit=wanted.limit,
            after=cursors.decode(bound_to, wanted.cursor),
        )
    except ScanLimitExceeded as error:
        raise ApiError(
            "SCAN_LIMIT_EXCEEDED",
            "The query reads more than one request may; go on from next_cursor, or narrow it.",
            next_cursor=cursors.encode(bound_to, error.details.get("cursor")),
        ) from error
    records = result.records
    if wanted.select is not None:
        paths = [path.split(".") for path in wanted.select]
        records = tuple(each._replace(value=_selected(each.value, paths)) for each in records)
    return Found(
        records=records,
        next_cursor=cursors.encode(bound_to, result.next_cursor),
        exhausted=result.exhausted,
        plan=result.plan,
        revision=revision,
    )


def _selected(value: Mapping[str, Any], paths: list[list[str]]) -> dict[str, Any]:
    """Return what lies at the dotted paths, in its place; what is missing is left out."""
    kept: dict[str, Any] = {}
    for path in paths:
        found: Any = value
        for name in path:
            found = found.get(name, _MISSING) if isinstance(found, Mapping) else _MISSING
        if found is _MISSING:
            continue
        target = kept
        for name in path[:-1]:
            inner = target.setdefault(name, {})
            if not isinstance(inner, dict):
                break
            target = inner
        else:
            target[path[-1]] = found
    return kept
