"""Queries, events, revision and runtime by the reference's names."""

import re

from tests.reference.exchanges import Exchange, named

_EVENT = (
    "event_id causal_id parent_event_id timestamp tenant_id application_id revision_id subject_id subject_type "
    "authorization_decision_id capability resource operation workload_id attempt_id worker_id connection_id "
    "execution_id state_version operation_ids artifact_ids result_id status error_code metadata schema_version"
)

_RUNTIME = (
    "namespace instance_id runtime protocol_version state_version peer_count authentication operation_log features"
)


def _asked(**members: object) -> dict[str, object]:
    return {"collection": "goods", "where": [], "orderBy": [{"field": "n", "direction": "asc"}], "limit": 2, **members}


ROWS = [
    Exchange(
        says="some records to ask about",
        send="POST /transactions",
        body={
            "transactionId": "goods",
            "operations": [
                {"collection": "goods", "id": f"g{n}", "value": {"n": n, "kind": "even" if n % 2 == 0 else "odd"}}
                for n in range(5)
            ],
        },
        status=201,
    ),
    Exchange(
        says="a query gives the first records of an order",
        send="POST /query",
        body=_asked(),
        status=200,
        members="records nextCursor exhausted",
        values={"/exhausted": False},
        keep={"cursor": ("/nextCursor", "/next_cursor")},
        differs={**named("query-members", "member nextCursor", "member next_cursor", "member plan")},
    ),
    Exchange(
        says="a cursor goes on",
        send="POST /query",
        body=_asked(cursor="$cursor"),
        status=200,
        members="records nextCursor exhausted",
        values={"/exhausted": False},
        differs={**named("query-members", "member nextCursor", "member next_cursor", "member plan")},
    ),
    Exchange(
        says="as often as one likes",
        send="POST /query",
        body=_asked(cursor="$cursor"),
        status=200,
        values={"/exhausted": False},
    ),
    Exchange(
        says="but for its own query only",
        send="POST /query",
        body=_asked(cursor="$cursor", where=[{"field": "n", "gt": 1}]),
        status=422,
        values={"/code": "INVALID_CURSOR"},
    ),
    Exchange(
        says="the last page says that it is",
        send="POST /query",
        body=_asked(limit=10),
        status=200,
        members="records exhausted",
        values={"/exhausted": True},
        differs={**named("query-members", "member next_cursor", "member plan")},
    ),
    Exchange(
        says="records of a query",
        send="POST /query",
        body=_asked(where=[{"field": "n", "gte": 1}, {"field": "kind", "neq": "even"}]),
        status=200,
        members="recordId id n kind",
        into="/records/0",
        differs={
            **named(
                "query-records",
                "member /records/0 key",
                "member /records/0 kind",
                "member /records/0 n",
                "member /records/0 recordId",
                "member /records/0 sequence",
                "member /records/0 updated_at_ms",
                "member /records/0 value",
                "member /records/0 version",
            )
        },
    ),
    Exchange(
        says="1.0 is not 1",
        send="POST /query",
        body=_asked(where=[{"field": "n", "eq": 1.0}]),
        status=200,
        values={"/records": []},
    ),
    Exchange(
        says="recordId is the record's id",
        send="POST /query",
        body=_asked(where=[{"field": "recordId", "eq": "g3"}]),
        status=200,
        values={"/records/0/id": "g3"},
        differs={**named("no-record-id-field", "value /records/0/id")},
    ),
    Exchange(
        says="a made-up cursor is refused",
        send="POST /query",
        body=_asked(cursor="0" * 32),
        status=422,
        values={"/code": "INVALID_CURSOR"},
    ),
    Exchange(
        says="a limit is needed",
        send="POST /query",
        body={"collection": "goods", "where": [], "orderBy": []},
        status=422,
        values={"/code": "INVALID_QUERY"},
        differs={**named("limit-by-default", "status", "value /code")},
    ),
    Exchange(
        says="and is from 1",
        send="POST /query",
        body=_asked(limit=0),
        status=422,
        values={"/code": "INVALID_QUERY"},
        differs={**named("shapes-are-400", "status", "value /code")},
    ),
    Exchange(
        says="to 1000",
        send="POST /query",
        body=_asked(limit=1001),
        status=422,
        values={"/code": "INVALID_QUERY"},
        differs={**named("shapes-are-400", "status", "value /code")},
    ),
    Exchange(
        says="a condition has one operator",
        send="POST /query",
        body=_asked(where=[{"field": "n", "gt": 1, "lt": 3}]),
        status=422,
        values={"/code": "INVALID_QUERY"},
    ),
    Exchange(
        says="a query needs the right to write",
        send="POST /query",
        body=_asked(),
        key="reader",
        status=403,
        values={"/code": "FORBIDDEN", "/reason": "MISSING_SCOPE", "/required_scope": "state:write"},
        differs={
            **named("reading-needs-read-scopes", "status", "value /code", "value /reason", "value /required_scope")
        },
    ),
    Exchange(
        says="a field is a member of the outermost object",
        send="POST /query",
        body=_asked(where=[{"field": "a.b", "eq": 1}]),
        status=200,
        values={"/exhausted": True},
    ),
    Exchange(
        says="the position of the state",
        send="GET /revision",
        status=200,
        members="revision scope",
        values={"/revision": 1},
        differs={**named("revision-cursor", "member cursor"), **named("revisions-are-sequences", "value /revision")},
    ),
    Exchange(
        says="what the server is, for everybody",
        send="GET /runtime",
        key=None,
        status=200,
        members=_RUNTIME,
        values={"/protocol_version": 1},
        differs={
            **named(
                "runtime-needs-a-key",
                "member authentication",
                "member code",
                "member error",
                "member features",
                "member instance_id",
                "member message",
                "member namespace",
                "member operation_log",
                "member peer_count",
                "member protocol_version",
                "member request_id",
                "member runtime",
                "member state_version",
                "member status",
                "member title",
                "member type",
                "status",
                "value /protocol_version",
            )
        },
    ),
    Exchange(
        says="and for a key",
        send="GET /runtime",
        status=200,
        members=_RUNTIME,
        values={"/protocol_version": 1},
        differs={
            **named(
                "runtime-members",
                "member authentication",
                "member cursor",
                "member durable_format",
                "member floor",
                "member limits",
                "member operation_log",
                "member peer_count",
                "member revision",
                "member runtime",
                "member state_version",
                "member storage",
                "member store_id",
            )
        },
    ),
    Exchange(
        says="a stream begins with all that ever was",
        send="GET /events",
        status=200,
        answer="events",
        members=_EVENT,
        into="/data",
        values={"/event": "state.committed", "/id": re.compile(r"fh1-[0-9a-f]{16}")},
        keep={"event": ("/id",)},
        differs={
            **named("cursor-form", "value /id"),
            **named(
                "events-hold-operations",
                "member /data application_id",
                "member /data artifact_ids",
                "member /data attempt_id",
                "member /data authorization_decision_id",
                "member /data capability",
                "member /data causal_id",
                "member /data connection_id",
                "member /data cursor",
                "member /data error_code",
                "member /data event_id",
                "member /data execution_id",
                "member /data metadata",
                "member /data operation",
                "member /data operation_ids",
                "member /data operations",
                "member /data parent_event_id",
                "member /data resource",
                "member /data result_id",
                "member /data revision_id",
                "member /data schema_version",
                "member /data state_version",
                "member /data status",
                "member /data subject_id",
                "member /data subject_type",
                "member /data tenant_id",
                "member /data timestamp",
                "member /data worker_id",
                "member /data workload_id",
            ),
        },
    ),
    Exchange(
        says="a second commit",
        send="POST /transactions",
        body={"transactionId": "more", "operations": [{"collection": "goods", "id": "g9", "value": {"n": 9}}]},
        status=201,
    ),
    Exchange(
        says="and a third",
        send="POST /transactions",
        body={"transactionId": "most", "operations": [{"collection": "goods", "id": "g10", "value": {"n": 10}}]},
        status=201,
    ),
    Exchange(
        says="a stream goes on after Last-Event-ID",
        send="GET /events",
        headers={"Last-Event-ID": "$event"},
        status=200,
        answer="events",
        values={"/event": "state.committed"},
        keep={"second": ("/id",)},
    ),
    Exchange(
        says="or after the cursor in the address",
        send="GET /events?cursor=$event",
        status=200,
        answer="events",
        values={"/id": "$second"},
    ),
    Exchange(
        says="which wins over Last-Event-ID",
        send="GET /events?cursor=$event",
        headers={"Last-Event-ID": "$second"},
        status=200,
        answer="events",
        values={"/id": "$second"},
        differs={**named("last-event-id-wins", "value /id")},
    ),
    Exchange(
        says="a made-up position is refused",
        send="GET /events?cursor=nonsense",
        status=400,
        values={"/code": "VALIDATION_ERROR"},
        differs={**named("feed-cursors-are-422", "status", "value /code")},
    ),
    Exchange(
        says="a reader of events needs no more",
        send="GET /events",
        key="reader",
        status=200,
        answer="events",
        values={"/event": "state.committed"},
    ),
]
