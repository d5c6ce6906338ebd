"""What the OpenAPI document says of each route in `views.py`: one decorator a method, in its order.

Not here: the routes of other modules, which are described where they stand, with the parts shared here.
"""

from typing import Any

from apps.http.openapi import Answer, describe, header_parameter, path_parameter, query_parameter, ref
from apps.http.parsers import MERGE_PATCH
from apps.state.api import schemas
from apps.state.limits import PAGE_DEFAULT, PAGE_MAX, WAIT_MAX_S

TAG = "State"
ORDER: dict[str, Any] = {"customer": "c-1", "amount": 250, "status": "new"}
RECORD = {
    "id": "o-1",
    "key": "orders:o-1",
    "version": 1,
    "sequence": 1,
    "updated_at_ms": 1_700_000_000_000,
    "value": ORDER,
}
INSTANCE = "0f3a9c5e7b1d4f60a2c8e4b6d8f01234"
OUTCOME = {
    "transactionId": "import-7",
    "baseRevision": 0,
    "commitRevision": 2,
    "status": "committed",
    "duplicate": False,
    "operationIds": [f"operation:{INSTANCE}:1", f"operation:{INSTANCE}:2"],
}
OPERATION = {
    "sequence": 1,
    "instance_id": INSTANCE,
    "transaction_id": None,
    "kind": "insert",
    "collection": "orders",
    "id": "o-1",
    "key": "orders:o-1",
    "version": 1,
    "previous_version": 0,
    "value": ORDER,
    "content_hash": "9f" * 32,
    "at_ms": 1_700_000_000_000,
    "actor": {
        "subject": "service:k7",
        "key_id": "k7",
        "request_id": "req_1",
        "workload_id": None,
        "trigger_id": None,
        "traceparent": None,
    },
}
FOUND = {"records": [RECORD], "next_cursor": None}
INDEX = {"name": "by-status", "fields": ["status", "total"], "complete": True}

COLLECTION = path_parameter("collection", "The collection's name.", schemas.COLLECTION)
ID = path_parameter("record", "The record's id, percent-encoded as one segment (`/` as `%2F`).", schemas.RECORD_ID)
LIMIT = query_parameter(
    "limit", "Items at most.", {"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": PAGE_DEFAULT}
)
CURSOR = query_parameter("cursor", "`next_cursor` of the page before.")
IF_MATCH = header_parameter("If-Match", "Versions in quotes, or `*`: refused with 412 unless the record has one.")
IF_NONE_MATCH = header_parameter("If-None-Match", "Versions in quotes, or `*`: the opposite; a read answers 304.")
KEY = header_parameter("Idempotency-Key", "The transaction's id: the same request with it is done once.")
READ = ("FeltDB-Revision",)
_READ_ONE = ("FeltDB-Revision", "ETag")
WRITE = ("FeltDB-Revision", "ETag", "Idempotent-Replay")
STORAGE = (
    "STORAGE_ERROR",
    "STORAGE_UNAVAILABLE",
    "STORAGE_REBUILDING",
    "STORAGE_FAILED",
    "STORAGE_CORRUPT",
    "SERVICE_OVERLOADED",
)
COMMIT = (
    *STORAGE,
    "STORAGE_FULL",
    "STORAGE_WRITE_FAILED",
    "STORAGE_READ_ONLY",
    "COMMIT_UNKNOWN",
    "IDEMPOTENCY_CONFLICT",
    "TRANSACTION_TOO_LARGE",
    "VALIDATION_FAILED",
    "VALIDATION_ERROR",
)

list_collections = describe(
    "list_collections",
    "List collections",
    tag=TAG,
    parameters=[LIMIT, CURSOR],
    answers={
        200: Answer(
            "A page, by name.",
            ref("CollectionPage"),
            {
                "collections": [{"name": "orders", "records": 1, "indexes": [INDEX], "contract": None}],
                "next_cursor": None,
            },
            READ,
        )
    },
    errors=["VALIDATION_ERROR", "INVALID_CURSOR", *STORAGE],
)
list_records = describe(
    "list_records",
    "Page through a collection",
    tag=TAG,
    description="In key order. A collection without records is an empty page.",
    parameters=[COLLECTION, LIMIT, CURSOR],
    answers={200: Answer("A page.", ref("RecordPage"), FOUND, READ)},
    errors=["VALIDATION_ERROR", "INVALID_CURSOR", *STORAGE],
)
create_record = describe(
    "create_record",
    "Create a record",
    tag=TAG,
    parameters=[COLLECTION, KEY],
    body=ref("NewRecord"),
    body_examples={"an id of yours": {"id": "o-1", **ORDER}, "an id made here": ORDER},
    answers={201: Answer("Created.", ref("Record"), RECORD, (*WRITE, "Location"))},
    errors=["CONFLICT", *COMMIT],
)
read_record = describe(
    "read_record",
    "Read a record",
    tag=TAG,
    parameters=[COLLECTION, ID, IF_MATCH, IF_NONE_MATCH],
    answers={
        200: Answer("The record.", ref("Record"), RECORD, _READ_ONE),
        304: Answer("The record has a version that If-None-Match lists.", headers=_READ_ONE),
    },
    errors=["NOT_FOUND", "VALIDATION_ERROR", "IF_MATCH_FAILED", *STORAGE],
)
put_record = describe(
    "put_record",
    "Store a whole record",
    tag=TAG,
    parameters=[COLLECTION, ID, IF_MATCH, IF_NONE_MATCH, KEY],
    body=schemas.VALUE,
    body_examples={"a value": ORDER},
    answers={
        200: Answer("Replaced.", ref("Record"), RECORD, WRITE),
        201: Answer("Created.", ref("Record"), RECORD, WRITE),
    },
    errors=["IF_MATCH_FAILED", *COMMIT],
)
merge_record = describe(
    "merge_record",
    "Merge a patch into a record",
    tag=TAG,
    description="A merge patch (RFC 7396), applied in one step to the record as it is at that moment.",
    parameters=[COLLECTION, ID, IF_MATCH, IF_NONE_MATCH, KEY],
    body=schemas.VALUE,
    also=[MERGE_PATCH],
    body_examples={"a patch": {"status": "paid", "note": None}},
    answers={200: Answer("Merged.", ref("Record"), RECORD, WRITE)},
    errors=["NOT_FOUND", "IF_MATCH_FAILED", *COMMIT],
)
delete_record = describe(
    "delete_record",
    "Delete a record",
    tag=TAG,
    parameters=[COLLECTION, ID, IF_MATCH, IF_NONE_MATCH, KEY],
    answers={204: Answer("Gone.", headers=("FeltDB-Revision", "Idempotent-Replay"))},
    errors=["NOT_FOUND", "IF_MATCH_FAILED", *COMMIT],
)
swap_record = describe(
    "compare_and_set",
    "Compare and set",
    tag=TAG,
    parameters=[COLLECTION, ID, KEY],
    body=ref("Swap"),
    body_examples={"from version 1": {"expectedVersion": 1, "value": {**ORDER, "status": "paid"}}},
    answers={200: Answer("Stored.", ref("Swapped"), {"updated": True, "currentVersion": 1, "item": RECORD}, WRITE)},
    errors=["VERSION_CONFLICT", *COMMIT],
)
transact = describe(
    "run_transaction",
    "Commit several changes",
    tag=TAG,
    description="Applied whole or not at all. The same id with the same request answers the first outcome again.",
    body=ref("Transaction"),
    body_examples={
        "create two": {
            "transactionId": "import-7",
            "operations": [
                {"collection": "orders", "id": "o-1", "value": ORDER, "requireAbsent": True},
                {"collection": "orders", "id": "o-2", "value": ORDER, "requireAbsent": True},
            ],
            "preconditions": [{"collection": "customers", "id": "c-1", "requirePresent": True}],
        }
    },
    answers={
        200: Answer("Committed before, by this very request.", ref("Outcome"), {**OUTCOME, "duplicate": True}),
        201: Answer("Committed.", ref("Outcome"), OUTCOME, READ),
    },
    errors=["PRECONDITION_FAILED", "FENCE_BROKEN", *COMMIT],
)
transaction_outcome = describe(
    "read_transaction",
    "Ask what became of a transaction",
    tag=TAG,
    description="For a client that lost the answer. The `Idempotency-Key` of a single write is such an id too.",
    parameters=[path_parameter("transaction", "The transaction's id, percent-encoded as one segment.")],
    answers={200: Answer("It was committed.", ref("Outcome"), OUTCOME, READ)},
    errors=["NOT_FOUND", "VALIDATION_ERROR", *STORAGE],
)
changes = describe(
    "read_changes",
    "Follow the feed",
    tag=TAG,
    description=(
        "The operations after a cursor, in order, without holes; a transaction is never split over pages. With `wait` "
        "the answer comes as soon as there is something, or empty with the same cursor."
    ),
    parameters=[
        query_parameter("after", "A returned `cursor`, `start` or `now`.", {"type": "string", "default": "start"}),
        LIMIT,
        query_parameter(
            "wait", "Seconds to wait for something new.", {"type": "integer", "minimum": 0, "maximum": WAIT_MAX_S}
        ),
        query_parameter("collections", "Only these, separated by commas."),
    ],
    answers={
        200: Answer(
            "A page of the feed.",
            ref("Changes"),
            {"operations": [OPERATION], "cursor": f"{INSTANCE}-1", "head": 1, "floor": 0},
            READ,
        )
    },
    errors=["VALIDATION_ERROR", "INVALID_CURSOR", "FEED_COMPACTED", "CURSOR_UNKNOWN", "CURSOR_AHEAD", *STORAGE],
)
revision = describe(
    "read_revision",
    "Ask where the state stands",
    tag=TAG,
    answers={
        200: Answer(
            "The durable position.",
            ref("Revision"),
            {"revision": 1, "scope": INSTANCE, "cursor": f"{INSTANCE}-1"},
            READ,
        )
    },
    errors=STORAGE,
)
runtime = describe(
    "read_runtime",
    "Ask what the server does",
    tag=TAG,
    answers={200: Answer("Instance, position, features and limits.", ref("Runtime"), None, READ)},
    errors=STORAGE,
)
