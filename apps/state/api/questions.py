"""Questions about records: queries, searches, history, provenance; and the indexes that make them quick."""

from typing import Any

from django.http import HttpResponse

from apps.http.openapi import Answer, describe, path_parameter, ref
from apps.keys.views import KeyedRequest
from apps.state import asking, inputs, reading, shapes
from apps.state.api import described
from apps.state.api.base import StateView, collection_in, names, reply
from apps.state.services import history, indexes, queries
from feltdb_engine.limits import INDEX_NAME_MAX_CHARS

_BOUNDED = ("INVALID_QUERY", "INVALID_CURSOR", "SCAN_LIMIT_EXCEEDED")
_FOUND: dict[str, Any] = {**described.FOUND, "exhausted": True, "plan": {"access": "scan", "scanned": 1}}
_INDEX = path_parameter("index", "The index's name, percent-encoded as one segment.")


class QueryView(StateView):
    """Queries over one collection."""

    scopes = {"POST": "state:read"}

    @describe(
        "query_records",
        "Query a collection",
        tag=described.TAG,
        body=ref("Query"),
        body_examples={
            "paid orders, largest first": {
                "collection": "orders",
                "where": [{"field": "status", "op": "eq", "value": "paid"}],
                "orderBy": [{"field": "amount", "direction": "desc"}],
                "limit": 10,
            },
            "how many are new": {
                "collection": "orders",
                "where": {"field": "status", "op": "eq", "value": "new"},
                "count": True,
                "limit": 0,
            },
        },
        answers={200: Answer("A page of what matches.", ref("QueryResult"), _FOUND, described.READ)},
        errors=[*_BOUNDED, "FEED_COMPACTED", "CURSOR_AHEAD", *described.STORAGE],
    )
    def post(self, request: KeyedRequest) -> HttpResponse:
        """Find records, count them, or both."""
        found = queries.run(self.call(request), asking.query(request.data))
        return reply(shapes.found(found), revision=found.revision)


class SearchView(StateView):
    """Search in the text of one collection."""

    scopes = {"POST": "state:read"}

    @describe(
        "search_records",
        "Search a collection",
        tag=described.TAG,
        description="Records with the text in any string of their value, whatever its case, in key order.",
        parameters=[described.COLLECTION],
        body=ref("Search"),
        body_examples={"a word": {"query": "tea", "limit": 10}},
        answers={200: Answer("A page of what was found.", ref("QueryResult"), _FOUND, described.READ)},
        errors=[*_BOUNDED, *described.STORAGE],
    )
    def post(self, request: KeyedRequest, collection: str) -> HttpResponse:
        """Find records by text."""
        found = queries.search(self.call(request), collection_in(collection), asking.search(request.data))
        return reply(shapes.found(found), revision=found.revision)


class BasisView(StateView):
    """What a transaction is to rest on."""

    scopes = {"POST": "state:read"}

    @describe(
        "read_basis",
        "Read what a transaction is to rest on",
        tag=described.TAG,
        description=(
            "A transaction with the token among its `fences` commits only while every record has the version read "
            "here, or is still absent, and the same records match each predicate in the same versions."
        ),
        body=ref("NewBasis"),
        body_examples={
            "an order, and all that wait": {
                "records": [{"collection": "orders", "id": "o-1"}],
                "predicates": [{"collection": "orders", "where": [{"field": "status", "op": "eq", "value": "new"}]}],
            }
        },
        answers={
            200: Answer(
                "The token, and the records.",
                ref("Basis"),
                {"token": "hVv9cGkA1yJbMSwi...", "revision": 1, "records": [described.RECORD]},
                described.READ,
            )
        },
        errors=["INVALID_QUERY", "SCAN_LIMIT_EXCEEDED", *described.STORAGE],
    )
    def post(self, request: KeyedRequest) -> HttpResponse:
        """Return the token and the records."""
        found = queries.basis(self.call(request), asking.basis(request.data))
        return reply(shapes.basis(found), revision=found.revision)


class HistoryView(StateView):
    """The past of one record."""

    scopes = {"GET": "state:read"}

    @describe(
        "read_history",
        "Read a record's history",
        tag=described.TAG,
        description="Its operations, newest first, as far back as the feed goes; those before a delete included.",
        parameters=[described.COLLECTION, described.ID, described.LIMIT, described.CURSOR],
        answers={
            200: Answer(
                "A page of it.",
                ref("History"),
                {"operations": [described.OPERATION], "next_cursor": None},
                described.READ,
            )
        },
        errors=["NOT_FOUND", "VALIDATION_ERROR", "INVALID_CURSOR", *described.STORAGE],
    )
    def get(self, request: KeyedRequest, collection: str, record: str) -> HttpResponse:
        """Page through the record's operations."""
        found = history.past(self.call(request), *names(collection, record), inputs.page(request.query_params))
        rows = [shapes.operation(each) for each in found.operations]
        return reply({"operations": rows, "next_cursor": found.next_cursor}, revision=found.revision)


class ProvenanceView(StateView):
    """Where the present state of one record comes from."""

    scopes = {"GET": "state:read"}

    @describe(
        "read_provenance",
        "Ask where a record comes from",
        tag=described.TAG,
        description="Its last operation, without the value: who, when, in which transaction. Of a deleted record too.",
        parameters=[described.COLLECTION, described.ID],
        answers={
            200: Answer(
                "Its last operation.",
                ref("Provenance"),
                {name: value for name, value in described.OPERATION.items() if name not in shapes.NOT_PROVENANCE},
                described.READ,
            )
        },
        errors=["NOT_FOUND", "VALIDATION_ERROR", "FEED_COMPACTED", *described.STORAGE],
    )
    def get(self, request: KeyedRequest, collection: str, record: str) -> HttpResponse:
        """Return the record's last operation."""
        found, revision = history.provenance(self.call(request), *names(collection, record))
        return reply(shapes.provenance(found), revision=revision)


class IndexView(StateView):
    """One declared index of a collection."""

    scopes = {"GET": "state:read", "PUT": "schema:write", "DELETE": "schema:write"}

    @describe(
        "read_index",
        "Look at an index",
        tag=described.TAG,
        parameters=[described.COLLECTION, _INDEX],
        answers={200: Answer("The index.", ref("Index"), described.INDEX, described.READ)},
        errors=["NOT_FOUND", "VALIDATION_ERROR", *described.STORAGE],
    )
    def get(self, request: KeyedRequest, collection: str, index: str) -> HttpResponse:
        """Return the index."""
        call = self.call(request)
        at = self.position(call)
        return reply(shapes.index(indexes.find(call, collection_in(collection), _name(index))), revision=at)

    @describe(
        "declare_index",
        "Declare an index",
        tag=described.TAG,
        description=(
            "Built while others read and write, for a few seconds a request: an answer of 202 says that it is not "
            "complete yet, and the same request again goes on with it."
        ),
        parameters=[described.COLLECTION, _INDEX],
        body=ref("NewIndex"),
        body_examples={"by status, then by total": {"fields": ["status", "total"]}},
        answers={
            200: Answer("Declared and complete.", ref("Index"), described.INDEX, described.READ),
            202: Answer(
                "Declared, not complete yet.", ref("Index"), {**described.INDEX, "complete": False}, described.READ
            ),
        },
        errors=["INVALID_QUERY", *described.COMMIT],
    )
    def put(self, request: KeyedRequest, collection: str, index: str) -> HttpResponse:
        """Declare the index, or go on building it."""
        fields = asking.index_fields(request.data)
        call = self.call(request)
        done = indexes.declare(call, collection_in(collection), _name(index), fields)
        return reply(shapes.index(done), status=200 if done.complete else 202, revision=self.position(call))

    @describe(
        "drop_index",
        "Drop an index",
        tag=described.TAG,
        parameters=[described.COLLECTION, _INDEX],
        answers={204: Answer("Gone.", headers=described.READ)},
        errors=["NOT_FOUND", *described.COMMIT],
    )
    def delete(self, request: KeyedRequest, collection: str, index: str) -> HttpResponse:
        """Drop the index."""
        call = self.call(request)
        indexes.drop(call, collection_in(collection), _name(index))
        return reply(status=204, revision=self.position(call))


def _name(segment: str) -> str:
    return reading.text(segment, "index", max_bytes=INDEX_NAME_MAX_CHARS)
