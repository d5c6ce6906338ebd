"""Transactions, read bases and fences by the reference's names."""

import re

from tests.reference.exchanges import Exchange, named

OUTCOME = (
    "transactionId baseRevision commitRevision status duplicate operations stateBefore stateAfter revisionId "
    "operationIds"
)
REFUSED = "code error message request_id committed failure"
_INSERT = {"collection": "stock", "id": "tea", "value": {"boxes": 1}, "requireAbsent": True}
_TWO = {"transactionId": "t-1", "operations": [_INSERT, {"collection": "stock", "id": "mint", "value": {"boxes": 1}}]}

ROWS = [
    Exchange(
        says="several records in one commit",
        send="POST /transactions",
        body=_TWO,
        status=201,
        members=OUTCOME,
        values={
            "/transactionId": "t-1",
            "/status": "committed",
            "/duplicate": False,
            "/baseRevision": 0,
            "/commitRevision": 1,
            "/operationIds/1": re.compile(r"operation:[^:]+:2"),
        },
        differs={
            **named(
                "outcome-members", "member operations", "member revisionId", "member stateAfter", "member stateBefore"
            ),
            **named("revisions-are-sequences", "value /commitRevision"),
        },
    ),
    Exchange(
        says="the same again answers the first outcome",
        send="POST /transactions",
        body=_TWO,
        status=200,
        members=OUTCOME,
        values={"/duplicate": True, "/commitRevision": 1},
        differs={
            **named(
                "outcome-members", "member operations", "member revisionId", "member stateAfter", "member stateBefore"
            ),
            **named("revisions-are-sequences", "value /commitRevision"),
        },
    ),
    Exchange(
        says="the id with other content is refused",
        send="POST /transactions",
        body={"transactionId": "t-1", "operations": [{"collection": "stock", "id": "other", "value": {}}]},
        status=409,
        members="code error message request_id committed transaction_id",
        values={"/code": "IDEMPOTENCY_CONFLICT", "/committed": False},
        differs={
            **named("problem-members", "member status", "member title", "member type"),
            **named("transaction-id-member", "member transactionId", "member transaction_id"),
        },
    ),
    Exchange(
        says="an insert over a record is refused whole",
        send="POST /transactions",
        body={"transactionId": "t-2", "operations": [_INSERT, {"collection": "stock", "id": "never", "value": {}}]},
        status=409,
        members=REFUSED,
        values={
            "/code": "PRECONDITION_FAILED",
            "/committed": False,
            "/message": "Conflict",
            "/failure/predicate": "present",
            "/failure/collection": "stock",
            "/failure/id": "tea",
            "/failure/key": "stock:tea",
        },
        differs={
            **named("messages-are-kept", "value /message"),
            **named("problem-members", "member details", "member status", "member title", "member type"),
        },
    ),
    Exchange(says="nothing of it is there", send="GET /collections/stock/never", status=404),
    Exchange(
        says="a precondition on a version",
        send="POST /transactions",
        body={
            "transactionId": "t-3",
            "operations": [{"collection": "stock", "id": "x", "value": {}}],
            "preconditions": [{"collection": "stock", "id": "tea", "expectedVersion": 7}],
        },
        status=409,
        members=REFUSED,
        values={
            "/code": "PRECONDITION_FAILED",
            "/failure/predicate": "version",
            "/failure/expected": 7,
            "/failure/actual": 1,
        },
        differs={**named("problem-members", "member details", "member status", "member title", "member type")},
    ),
    Exchange(
        says="a guarded write moves the version",
        send="POST /transactions",
        body={
            "transactionId": "t-4",
            "operations": [{"collection": "stock", "id": "tea", "value": {"boxes": 2}, "expectedVersion": 1}],
        },
        status=201,
        values={"/status": "committed"},
    ),
    Exchange(
        says="no value means delete, also of what is not there",
        send="POST /transactions",
        body={"transactionId": "t-5", "operations": [{"collection": "stock", "id": "none"}]},
        status=201,
    ),
    Exchange(
        says="an id is not empty",
        send="POST /transactions",
        body={"transactionId": "", "operations": [_INSERT]},
        status=400,
        values={"/code": "VALIDATION_ERROR"},
    ),
    Exchange(
        says="an id is needed",
        send="POST /transactions",
        body={"operations": [{"collection": "stock", "id": "noid", "value": {}}]},
        status=422,
        answer="text",
        differs={**named("made-transaction-ids", "body", "status")},
    ),
    Exchange(
        says="something is to be done",
        send="POST /transactions",
        body={"transactionId": "t-6", "operations": []},
        status=400,
        values={"/code": "VALIDATION_ERROR"},
    ),
    Exchange(
        says="a record is changed once",
        send="POST /transactions",
        body={"transactionId": "t-7", "operations": [{"collection": "s", "id": "a", "value": {}}] * 2},
        status=400,
        values={"/code": "VALIDATION_ERROR"},
    ),
    Exchange(
        says="a precondition constrains something",
        send="POST /transactions",
        body={
            "transactionId": "t-8",
            "operations": [{"collection": "s", "id": "a", "value": {}}],
            "preconditions": [{"collection": "s", "id": "b"}],
        },
        status=400,
        values={"/code": "VALIDATION_ERROR"},
    ),
    Exchange(
        says="a fence is a token that was given",
        send="POST /transactions",
        body={
            "transactionId": "t-9",
            "operations": [{"collection": "s", "id": "a", "value": {}}],
            "fences": [{"reads": {"records": [], "predicates": []}, "token": "no token"}],
        },
        status=400,
        values={"/code": "VALIDATION_ERROR"},
    ),
    Exchange(
        says="a read basis gives a token",
        send="POST /transactions/read-basis",
        body={
            "records": [{"collection": "stock", "id": "tea"}],
            "predicates": [{"collection": "stock", "where": [{"field": "boxes", "eq": 1}]}],
        },
        status=200,
        members="reads token",
        keep={"token": ("/token",)},
        differs={**named("basis-members", "member reads", "member records", "member revision")},
    ),
    Exchange(
        says="a commit that rests on it",
        send="POST /transactions",
        body={
            "transactionId": "t-10",
            "operations": [{"collection": "stock", "id": "tea", "value": {"boxes": 3}}],
            "fences": [
                {
                    "reads": {
                        "records": [{"collection": "stock", "id": "tea"}],
                        "predicates": [{"collection": "stock", "where": [{"field": "boxes", "eq": 1}]}],
                    },
                    "token": "$token",
                }
            ],
        },
        status=201,
    ),
    Exchange(
        says="once what it rests on has changed it is refused",
        send="POST /transactions",
        body={
            "transactionId": "t-11",
            "operations": [{"collection": "stock", "id": "tea", "value": {"boxes": 4}}],
            "fences": [
                {
                    "reads": {
                        "records": [{"collection": "stock", "id": "tea"}],
                        "predicates": [{"collection": "stock", "where": [{"field": "boxes", "eq": 1}]}],
                    },
                    "token": "$token",
                }
            ],
        },
        status=409,
        members=REFUSED,
        values={"/code": "PRECONDITION_FAILED", "/committed": False, "/failure/predicate": "fence"},
        differs={
            **named("fence-broken", "value /code"),
            **named("problem-members", "member details", "member status", "member title", "member type"),
        },
    ),
    Exchange(
        says="the outcome of an id is not to be asked for here",
        send="GET /transactions/t-1",
        status=404,
        answer="empty",
        differs={**named("outcome-by-id", "body", "status")},
    ),
    Exchange(
        says="a reader may take a read basis",
        send="POST /transactions/read-basis",
        body={"records": [{"collection": "stock", "id": "tea"}], "predicates": []},
        key="reader",
        status=200,
    ),
]
