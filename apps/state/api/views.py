"""Records, transactions and the feed. Thin: read the request, call one service function, give its result a shape.

Not here: questions about records (`questions.py`).
"""

from django.http import HttpResponse

from apps.http.addresses import location
from apps.keys.views import KeyedRequest
from apps.state import conditions, inputs, reading, shapes
from apps.state.api import described
from apps.state.api.base import StateView, collection_in, names, reply
from apps.state.limits import TRANSACTION_BODY_BYTES
from apps.state.services import feed, position, records, transactions
from apps.state.services.records import Written

REPLAYED = {"Idempotent-Replay": "true"}


def _written(written: Written, *, status: int, headers: dict[str, str] | None = None) -> HttpResponse:
    extra = {**(headers or {}), **(REPLAYED if written.replayed else {})}
    return reply(
        shapes.record(written.record),
        status=status,
        revision=written.revision,
        version=written.record.version,
        headers=extra,
    )


class CollectionsView(StateView):
    """The namespace's collections."""

    scopes = {"GET": "state:read"}

    @described.list_collections
    def get(self, request: KeyedRequest) -> HttpResponse:
        """Page through the collections that hold records or have indexes."""
        found = position.collections(self.call(request), inputs.page(request.query_params))
        rows = [shapes.collection(each) for each in found.collections]
        return reply({"collections": rows, "next_cursor": found.next_cursor}, revision=found.revision)


class CollectionView(StateView):
    """One collection."""

    scopes = {"GET": "state:read", "POST": "state:write"}

    @described.list_records
    def get(self, request: KeyedRequest, collection: str) -> HttpResponse:
        """Page through the records in key order."""
        found = records.page(self.call(request), collection_in(collection), inputs.page(request.query_params))
        rows = [shapes.record(each) for each in found.records]
        return reply({"records": rows, "next_cursor": found.next_cursor}, revision=found.revision)

    @described.create_record
    def post(self, request: KeyedRequest, collection: str) -> HttpResponse:
        """Create a record, under the id it names for itself or one made here."""
        conditions.refuse(request.headers)
        record_id, value = inputs.new_record(request.data)
        written = records.create(self.call(request, write=True), collection_in(collection), record_id, value)
        return _written(written, status=201, headers=location("collections", collection, written.record.id))


class RecordView(StateView):
    """One record."""

    scopes = {"GET": "state:read", "PUT": "state:write", "PATCH": "state:write", "DELETE": "state:write"}

    @described.read_record
    def get(self, request: KeyedRequest, collection: str, record: str) -> HttpResponse:
        """Read the record; If-None-Match of its version answers 304."""
        found = records.read(self.call(request), *names(collection, record))
        version, asked = found.record.version, conditions.read(request.headers)
        if asked.match is not None and not asked.match.match(version):
            raise conditions.failed(version)
        if asked.none_match is not None and asked.none_match.match(version):
            return reply(status=304, revision=found.revision, version=version)
        return reply(shapes.record(found.record), revision=found.revision, version=version)

    @described.put_record
    def put(self, request: KeyedRequest, collection: str, record: str) -> HttpResponse:
        """Store the whole value; 201 where there was no record."""
        name, record_id = names(collection, record)
        value = inputs.named_object(request.data, record_id)
        asked = conditions.read(request.headers)
        written = records.put(self.call(request, write=True), name, record_id, value, asked)
        return _written(written, status=201 if written.created else 200)

    @described.merge_record
    def patch(self, request: KeyedRequest, collection: str, record: str) -> HttpResponse:
        """Apply a merge patch."""
        name, record_id = names(collection, record)
        patch = inputs.named_object(request.data, record_id)
        asked = conditions.read(request.headers)
        return _written(records.merge(self.call(request, write=True), name, record_id, patch, asked), status=200)

    @described.delete_record
    def delete(self, request: KeyedRequest, collection: str, record: str) -> HttpResponse:
        """Remove the record."""
        asked = conditions.read(request.headers)
        gone = records.delete(self.call(request, write=True), *names(collection, record), asked)
        return reply(status=204, revision=gone.revision, headers=REPLAYED if gone.replayed else None)


class SwapView(StateView):
    """Compare-and-set of one record."""

    scopes = {"POST": "state:write"}

    @described.swap_record
    def post(self, request: KeyedRequest, collection: str, record: str) -> HttpResponse:
        """Store the value if the record has the expected version."""
        conditions.refuse(request.headers)
        name, record_id = names(collection, record)
        wanted = inputs.swap(request.data)
        call = self.call(request, write=True)
        written = records.compare_and_set(call, name, record_id, wanted.expected_version, wanted.value)
        return reply(
            {
                "updated": True,
                "currentVersion": written.record.version,
                "item": shapes.record(written.record),
            },
            revision=written.revision,
            version=written.record.version,
            headers=REPLAYED if written.replayed else None,
        )


class TransactionsView(StateView):
    """Transactions of several changes."""

    scopes = {"POST": "state:write"}
    max_body_bytes = TRANSACTION_BODY_BYTES

    @described.transact
    def post(self, request: KeyedRequest) -> HttpResponse:
        """Commit the changes, whole or not at all."""
        conditions.refuse(request.headers)
        result = transactions.run(self.call(request), inputs.transaction(request.data, request.headers))
        status = 200 if result.duplicate else 201
        return reply(shapes.outcome(result), status=status, revision=result.revision)


class TransactionView(StateView):
    """What became of a transaction."""

    scopes = {"GET": "state:read"}

    @described.transaction_outcome
    def get(self, request: KeyedRequest, transaction: str) -> HttpResponse:
        """Return the outcome of a transaction id."""
        named = reading.transaction_id(transaction, field="id")
        call = self.call(request)
        at = self.position(call)
        return reply(shapes.outcome(transactions.outcome(call, named)), revision=at)


class ChangesView(StateView):
    """The feed of changes."""

    scopes = {"GET": "events:read"}

    @described.changes
    def get(self, request: KeyedRequest) -> HttpResponse:
        """Return the operations after a cursor, waiting for some if asked to."""
        found = feed.changes(self.call(request), inputs.changes(request.query_params))
        return reply(shapes.changes(found), revision=found.head)


class RevisionView(StateView):
    """Where the state stands."""

    scopes = {"GET": "state:read"}

    @described.revision
    def get(self, request: KeyedRequest) -> HttpResponse:
        """Return the durable revision."""
        head = position.revision(self.call(request))
        return reply(
            {"revision": head.sequence, "scope": head.instance_id, "cursor": str(head)}, revision=head.sequence
        )


class RuntimeView(StateView):
    """What this server does for the namespace."""

    scopes = {"GET": None}

    @described.runtime
    def get(self, request: KeyedRequest) -> HttpResponse:
        """Return instance, position, features and limits."""
        found = position.runtime(self.call(request))
        return reply(shapes.runtime(found), revision=found.head.sequence)
