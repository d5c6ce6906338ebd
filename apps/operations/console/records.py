"""Records in the console, now or as of an earlier revision: collections, a page of one, one record with its past.

To look at, never to change.
"""

import time
from typing import Any

import orjson
from django.contrib.admin import AdminSite
from django.http import Http404, HttpRequest, HttpResponse

from apps.http.pages.diff import Differences, differences
from apps.operations.console.store_pages import PAST_S, answer, enter, number, soon
from apps.state.stores import store
from apps.triggers.models import Trigger
from feltdb_engine import Glimpse, Operation, Past, Record, Store
from feltdb_engine.errors import DeadlineExceeded, EngineError, InvalidKey, InvalidQuery, ScanLimitExceeded
from feltdb_engine.values import encode_key

PAGE_RECORDS = 50
PAGE_VERSIONS = 20
MAX_COLLECTIONS = 500
MAX_PREVIEW_CHARS = 160
"""Characters of a record's value shown in a list."""

NEAR_OPERATIONS = 20_000
"""Changes since a revision that are read whole, to answer anything about it; before them each record is traced back."""

MAX_WHERE_CHARS = 4_096
MAX_CHANGED = 8
"""Differences between two versions shown in the list of versions; the page of the change has them all."""


_Then = Store | Past | Glimpse


def collections(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """List the collections that hold records, with how many."""
    namespace = enter(request)

    def read() -> dict[str, Any]:
        found = store(namespace).collections()
        return {"collections": found[:MAX_COLLECTIONS], "more": len(found) > MAX_COLLECTIONS}

    return answer(site, request, "console/collections.html", "Records", read)


def page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """List records of one collection: in the order of their ids, or those that match; now or as of a revision."""
    namespace = enter(request)
    collection = request.GET.get("collection", "")
    asked = {name: request.GET.get(name, "").strip() for name in ("where", "text")}

    def read() -> dict[str, Any]:
        opened = store(namespace)
        then, as_of = _moment(opened, request)
        found = _matching(then, collection, asked, request) if any(asked.values()) else _page(then, collection, request)
        watched = Trigger.objects.filter(namespace=namespace, source_collection=collection)
        return {
            **found,
            "as_of": as_of,
            "head": opened.head().sequence,
            "indexes": opened.indexes(collection),
            "preview_chars": MAX_PREVIEW_CHARS,
            "triggers": list(watched.exclude(state=Trigger.State.ARCHIVED).order_by("trigger_id")[:PAGE_RECORDS]),
        }

    shared = {"collection": collection, "after": request.GET.get("after") or None, "asked": asked}
    return answer(site, request, "console/records.html", collection, read, **shared)


def _moment(opened: Store, request: HttpRequest) -> tuple[_Then, int | None]:
    """Return what is asked: the store, or an earlier moment of it and its revision."""
    as_of = number(request, "as_of")
    if as_of is None:
        return opened, None
    near = opened.head().sequence - as_of <= NEAR_OPERATIONS
    return opened.as_of(as_of) if near else opened.glimpse(as_of), as_of


def _until(then: _Then) -> float:
    return time.monotonic() + PAST_S if isinstance(then, Past) else soon()


def _page(then: _Then, collection: str, request: HttpRequest) -> dict[str, Any]:
    """Return some records; of an earlier moment fewer, or none, where time ran out: then it goes on after them."""
    after = request.GET.get("after") or None
    try:
        found = then.page(collection, after=after, limit=PAGE_RECORDS, deadline=_until(then))
    except DeadlineExceeded as late:
        if not late.details.get("record_id"):
            raise
        return {"records": (), "next_after": late.details["cursor"], "left_out": late.message, "unfinished": True}
    unfinished = found.next_after is not None and len(found.records) < PAGE_RECORDS and isinstance(then, Glimpse)
    return {"records": found.records, "next_after": found.next_after, "unfinished": unfinished}


def _matching(then: _Then, collection: str, asked: dict[str, str], request: HttpRequest) -> dict[str, Any]:
    """Return records that match `where` (JSON) or hold `text`; a look that ran out of time says where it goes on."""
    cursor = request.GET.get("cursor") or None
    if asked["where"] and asked["text"]:
        raise InvalidQuery("Ask for a condition or for a text, not for both.", pointer="/text")
    try:
        if asked["text"]:
            found = then.search(collection, asked["text"], PAGE_RECORDS, after=cursor, deadline=_until(then))
        else:
            where = _condition(asked["where"])
            found = then.query(collection, where=where, limit=PAGE_RECORDS, after=cursor, deadline=_until(then))
    except (DeadlineExceeded, ScanLimitExceeded) as late:
        if not late.details.get("cursor"):
            raise
        left_out = late.message if late.details.get("record_id") else ""
        return {"records": (), "next_cursor": late.details["cursor"], "left_out": left_out, "unfinished": True}
    return {
        "records": found.records,
        "next_cursor": found.next_cursor,
        "unfinished": not found.exhausted and len(found.records) < PAGE_RECORDS,
    }


def _condition(text: str) -> Any:
    if len(text) > MAX_WHERE_CHARS:
        raise InvalidQuery("This condition is too long.", pointer="/where")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidQuery(f"The condition is not JSON: {error}", pointer="/where") from error


def one(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show one record, now or as of a revision, with its versions."""
    namespace = enter(request)
    collection, record_id = request.GET.get("collection", ""), request.GET.get("id", "")
    key = f"{collection}:{record_id}"

    def read() -> dict[str, Any]:
        encode_key(key)
        opened = store(namespace)
        then, as_of = _moment(opened, request)
        record = then.get(key, deadline=_until(then))
        past = opened.history(
            collection, record_id, PAGE_VERSIONS + 1, from_sequence=number(request, "from"), deadline=soon()
        )
        if record is None and not past.operations:
            raise Http404(f"there is no record {key}")
        return {
            "record": record,
            "key": key,
            "as_of": as_of,
            "head": opened.head().sequence,
            "versions": _versions(past.operations[:PAGE_VERSIONS], past.operations[1 : PAGE_VERSIONS + 1]),
            "older": past.operations[PAGE_VERSIONS].sequence if len(past.operations) > PAGE_VERSIONS else None,
            "compacted": bool(past.operations) and past.next_sequence is None and past.operations[-1].version > 1,
            "paged": "from" in request.GET,
            "api_url": request.build_absolute_uri(f"/v1/collections/{collection}/"),
            "namespace": namespace,
        }

    return answer(site, request, "console/record.html", key, read, collection=collection, record_id=record_id)


def _versions(
    operations: tuple[Operation, ...], before: tuple[Operation, ...]
) -> list[tuple[Operation, Differences | None]]:
    """Pair each operation with what it changed of the one before it, None where that says nothing."""
    earlier = [*before, *[None] * (len(operations) - len(before))]
    return [
        (now, None if then is None or now.kind != "update" else differences(then.value, now.value, limit=MAX_CHANGED))
        for now, then in zip(operations, earlier, strict=True)
    ]


def value(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Give the whole value of a record, or of the change `sequence`, as a file of exactly the JSON that is stored."""
    namespace = enter(request)
    key = f"{request.GET.get('collection', '')}:{request.GET.get('id', '')}"
    try:
        opened = store(namespace)
        found: Record | Operation | None
        sequence = number(request, "sequence")
        if sequence is not None:
            operations = opened.transaction_at(sequence, deadline=soon())
            found = next((each for each in operations if each.sequence == sequence), None)
        else:
            then, _ = _moment(opened, request)
            found = then.get(key, deadline=_until(then))
    except InvalidKey as error:
        raise Http404(error.message) from error
    except EngineError as error:
        return HttpResponse(f"{error.code}: {error.message}\n", status=409, content_type="text/plain; charset=utf-8")
    if found is None:
        raise Http404("there is no such record")
    return HttpResponse(
        orjson.dumps(found.value),
        content_type="application/json",
        headers={"Content-Disposition": 'attachment; filename="record.json"'},
    )
