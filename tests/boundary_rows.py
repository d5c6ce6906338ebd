"""One row for every `/v1` route and method, so that no door is left unwatched.

`tests/keys/test_boundary.py` walks the URL map and fails for a route and method without a row here; for each row it
sends the wrong keys and expects the right refusal. Whoever adds a route adds its row to that room's list:

    Row("POST", "/v1/workloads/w1/start", scope="workload:execute", body={...}, worker="w1-worker")

- `path` is a real path of the route (any ids; refusals come before anything is looked up);
- `scope` is the scope the method needs, None where any valid key will do, `PUBLIC` where no key is needed;
- `body` is a body the route accepts, so that only the key is wrong;
- `namespaced=False` where the route belongs to no namespace;
- `also` names scopes that the method needs besides;
- `media` is the media type of the body where that is not plain JSON;
- `worker` names the worker that path and body speak for, on worker routes: a key of any other worker must be
  refused whatever it holds, and one that is no worker unless it holds `worker:manage`.
"""

from dataclasses import dataclass
from typing import Any

PUBLIC = "public"


@dataclass(frozen=True, slots=True)
class Row:
    """One method of one route; see the module's text."""

    method: str
    path: str
    scope: str | None
    body: Any = None
    namespaced: bool = True
    worker: str | None = None
    also: tuple[str, ...] = ()
    media: str = "application/json"


NEW_GRANT = {
    "subject": {"kind": "agent", "id": "a"},
    "application_id": "app",
    "capabilities": ["grants:write"],
    "resources": [{"kind": "APPLICATION", "uri": "flow://app"}],
    "expires_at": 2_000_000_000,
}

KEYS: list[Row] = [
    Row("GET", "/v1/keys/current", scope=None, namespaced=False),
    Row("GET", "/v1/keys", scope="keys:admin", namespaced=False),
    Row("POST", "/v1/keys", scope="keys:admin", body={"name": "k", "scopes": ["keys:admin"]}, namespaced=False),
    Row("GET", "/v1/keys/nobody", scope="keys:admin", namespaced=False),
    Row("DELETE", "/v1/keys/nobody", scope="keys:admin", namespaced=False),
    Row("POST", "/v1/keys/nobody/rotate", scope="keys:admin", body={}, namespaced=False),
    Row("DELETE", "/v1/keys/nobody/old-secret", scope="keys:admin", namespaced=False),
]

GRANTS: list[Row] = [
    Row("GET", "/v1/grants", scope=None),
    Row("POST", "/v1/grants", scope="grants:write", body=NEW_GRANT),
    Row("GET", "/v1/grants/g1", scope=None),
    Row("POST", "/v1/grants/g1/revoke", scope="grants:write", body={}),
    Row("POST", "/v1/grants/g1/delegate", scope="grants:write", body={"subject": {"kind": "agent", "id": "a"}}),
    Row(
        "POST",
        "/v1/authorization/check",
        scope=None,
        body={"grant": {}, "application_id": "app", "capability": "state:read", "resource": "flow://app"},
    ),
    Row("GET", "/v1/authorization/key", scope=None, namespaced=False),
]

SESSIONS: list[Row] = [
    Row("POST", "/v1/auth/signin", scope=PUBLIC, body={"username": "", "password": ""}, namespaced=False),
    Row("POST", "/v1/auth/signout", scope=None, body={}, namespaced=False),
    Row("GET", "/v1/auth/session", scope=None, namespaced=False),
]

AUDIT: list[Row] = [
    Row("GET", "/v1/audit", scope="audit:read", namespaced=False),
    Row("GET", "/v1/audit/export", scope="audit:read", namespaced=False),
]

_ROW = {"collection": "orders", "id": "o-1", "value": {}}
_ORDER = "/v1/collections/orders/o-1"

STATE: list[Row] = [
    Row("GET", "/v1/collections", scope="state:read"),
    Row("GET", "/v1/collections/orders", scope="state:read"),
    Row("POST", "/v1/collections/orders", scope="state:write", body={"id": "o-1"}),
    Row("GET", _ORDER, scope="state:read"),
    Row("PUT", _ORDER, scope="state:write", body={"amount": 1}),
    Row("PATCH", _ORDER, scope="state:write", body={"amount": 1}),
    Row("DELETE", _ORDER, scope="state:write"),
    Row("POST", f"{_ORDER}/cas", scope="state:write", body={"expectedVersion": 0, "value": {}}),
    Row("GET", f"{_ORDER}/history", scope="state:read"),
    Row("GET", f"{_ORDER}/provenance", scope="state:read"),
    Row("POST", "/v1/collections/orders/search", scope="state:read", body={"query": "tea"}),
    Row("GET", "/v1/collections/orders/indexes/by-status", scope="state:read"),
    Row("PUT", "/v1/collections/orders/indexes/by-status", scope="schema:write", body={"fields": ["status"]}),
    Row("DELETE", "/v1/collections/orders/indexes/by-status", scope="schema:write"),
    Row("POST", "/v1/query", scope="state:read", body={"collection": "orders"}),
    Row("POST", "/v1/transactions", scope="state:write", body={"operations": [{"collection": "orders", "id": "o-1"}]}),
    Row("GET", "/v1/transactions/t-1", scope="state:read"),
    Row(
        "POST",
        "/v1/transactions/read-basis",
        scope="state:read",
        body={"records": [{"collection": "orders", "id": "o-1"}]},
    ),
    Row("GET", "/v1/schema", scope="state:read"),
    Row("PUT", "/v1/schema", scope="schema:write", body={"collections": {}}),
    Row("POST", "/v1/schema/validate", scope="state:read", body={"collections": {}}),
    Row("DELETE", "/v1/schema/pending", scope="schema:write"),
    Row("GET", "/v1/application", scope="state:read"),
    Row("GET", "/v1/export", scope="state:read"),
    Row("POST", "/v1/import", scope="state:write", body=_ROW, media="application/x-ndjson"),
    Row("GET", "/v1/capabilities", scope="capabilities:read"),
    Row("GET", "/v1/capabilities/find", scope="capabilities:read"),
    Row("PUT", "/v1/capabilities/find", scope="capabilities:write", body={"steps": [{"op": "identity"}]}),
    Row("DELETE", "/v1/capabilities/find", scope="capabilities:write"),
    Row("GET", "/v1/changes", scope="events:read"),
    Row("GET", "/v1/events", scope="events:read"),
    Row("GET", "/v1/revision", scope="state:read"),
    Row("GET", "/v1/runtime", scope=None),
    Row("GET", "/v1/openapi.json", scope=PUBLIC, namespaced=False),
    Row("GET", "/v1/docs", scope=PUBLIC, namespaced=False),
]

_W = "/v1/workloads/workload_000000000000000000000000"
_FENCE = {"worker_id": "w1", "claim_id": "claim_0", "fencing_token": 1}
_REPORT = {"workload_id": "workload_000000000000000000000000", "claim_id": "claim_0", "fencing_token": 1}

WORKLOADS: list[Row] = [
    Row("GET", "/v1/workloads", scope="workload:read"),
    Row("POST", "/v1/workloads", scope="workload:create", body={"definition_id": "identity", "idempotency_key": "k"}),
    Row("GET", "/v1/workloads/counts", scope="workload:read"),
    Row("GET", _W, scope="workload:read"),
    Row("GET", f"{_W}/history", scope="workload:read"),
    Row("GET", f"{_W}/result", scope="workload:read"),
    Row("POST", f"{_W}/cancel", scope="workload:cancel", body={}),
    Row("POST", f"{_W}/retry", scope="workload:retry", body={}),
    Row(
        "POST",
        f"{_W}/resubmit",
        scope="workload:create",
        body={"idempotency_key": "k"},
        also=("workload:read",),
    ),
    Row("POST", f"{_W}/approve", scope="workload:approve", body={"input_hash": "0"}),
    Row("POST", f"{_W}/reject", scope="workload:approve", body={"input_hash": "0", "reason": "no"}),
    Row(
        "POST",
        "/v1/workloads/claim",
        scope="workload:claim",
        body={"worker_id": "w1", "capabilities": ["identity"]},
        worker="w1",
    ),
    Row("POST", f"{_W}/claim", scope="workload:claim", body={"worker_id": "w1"}, worker="w1"),
    Row("POST", f"{_W}/start", scope="workload:execute", body=_FENCE, worker="w1"),
    Row("POST", f"{_W}/heartbeat", scope="workload:execute", body={**_FENCE, "extend_ms": 1000}, worker="w1"),
    Row("POST", f"{_W}/checkpoint", scope="workload:execute", body={**_FENCE, "state": 1}, worker="w1"),
    Row("POST", f"{_W}/context", scope="workload:execute", body=_FENCE, worker="w1"),
    Row(
        "POST",
        f"{_W}/complete",
        scope="workload:execute",
        body={**_FENCE, "result_id": "r", "output": None},
        worker="w1",
    ),
    Row("POST", f"{_W}/fail", scope="workload:execute", body={**_FENCE, "kind": "timeout"}, worker="w1"),
    Row(
        "POST",
        "/v1/workloads/complete",
        scope="workload:execute",
        body={"worker_id": "w1", "reports": [{**_REPORT, "result_id": "r", "output": None}]},
        worker="w1",
    ),
    Row(
        "POST",
        "/v1/workloads/fail",
        scope="workload:execute",
        body={"worker_id": "w1", "reports": [{**_REPORT, "kind": "timeout"}]},
        worker="w1",
    ),
    Row("POST", f"{_W}/cancelled", scope="workload:execute", body=_FENCE, worker="w1"),
]

_BEAT = {"incarnation_id": "incarnation_0"}

WORKERS: list[Row] = [
    Row("GET", "/v1/workers", scope="workload:read"),
    Row("POST", "/v1/workers/register", scope="worker:register", body={"worker_id": "w1"}, worker="w1"),
    Row("GET", "/v1/workers/w1", scope="workload:read"),
    Row("DELETE", "/v1/workers/w1", scope="worker:manage"),
    Row("POST", "/v1/workers/w1/heartbeat", scope="worker:heartbeat", body=_BEAT, worker="w1"),
    Row("POST", "/v1/workers/w1/reconcile", scope="worker:heartbeat", body={**_BEAT, "claims": []}, worker="w1"),
    Row("POST", "/v1/workers/w1/drain", scope="worker:manage", body={}),
    Row("POST", "/v1/workers/w1/recover", scope="worker:manage", body={}),
    Row("GET", f"{_W}/eligible-workers", scope="workload:read"),
]

_NEW_SCHEDULE = {"schedule_id": "s1", "expression": "0 6 * * *", "work": {"definition_id": "identity"}}

SCHEDULES: list[Row] = [
    Row("GET", "/v1/schedules", scope="workload:read"),
    Row("POST", "/v1/schedules", scope="workload:create", body=_NEW_SCHEDULE),
    Row("GET", "/v1/schedules/s1", scope="workload:read"),
    Row("DELETE", "/v1/schedules/s1", scope="workload:create"),
    Row("POST", "/v1/schedules/s1/pause", scope="workload:create", body={}),
    Row("POST", "/v1/schedules/s1/resume", scope="workload:create", body={}),
]

_NEW_TRIGGER = {
    "trigger_id": "t1",
    "source_collection": "orders",
    "change_kind": "insert",
    "target_capability": "identity",
}

TRIGGERS: list[Row] = [
    Row("GET", "/v1/triggers", scope="triggers:read"),
    Row("POST", "/v1/triggers", scope="triggers:write", body=_NEW_TRIGGER),
    Row("GET", "/v1/triggers/t1", scope="triggers:read"),
    Row("PUT", "/v1/triggers/t1", scope="triggers:write", body=_NEW_TRIGGER),
    Row("PATCH", "/v1/triggers/t1", scope="triggers:write", body={"priority": 1}),
    Row("DELETE", "/v1/triggers/t1", scope="triggers:write"),
    Row("POST", "/v1/triggers/t1/enable", scope="triggers:write", body={}),
    Row("POST", "/v1/triggers/t1/disable", scope="triggers:write", body={}),
    Row("POST", "/v1/triggers/t1/pause", scope="triggers:write", body={}),
    Row("POST", "/v1/triggers/t1/resume", scope="triggers:write", body={}),
    Row("GET", "/v1/triggers/t1/quarantine", scope="triggers:read"),
    Row("GET", "/v1/triggers/t1/revisions", scope="triggers:read"),
    Row("POST", "/v1/triggers/t1/rebase", scope="triggers:write", body={"to": "now"}),
    Row("POST", "/v1/triggers/t1/skip", scope="triggers:write", body={"change": "1"}),
    Row("POST", "/v1/triggers/t1/retry", scope="triggers:write", body={"change": "1"}),
    Row("POST", "/v1/triggers/t1/dry-run", scope="triggers:read", body={}, also=("state:read",)),
    Row("GET", "/v1/triggers/t1/explain", scope="triggers:read", also=("state:read",)),
    Row("GET", "/v1/triggers/t1/status", scope="triggers:read"),
    Row("POST", "/v1/triggers/t1/replay", scope="triggers:write", body={"from": "beginning", "to": "now"}),
    Row("GET", "/v1/triggers/t1/replays", scope="triggers:read"),
    Row("POST", "/v1/triggers/t1/replays/1/cancel", scope="triggers:write", body={}),
    Row("GET", "/v1/trigger-status", scope="triggers:read"),
]

OPERATIONS: list[Row] = [
    Row("GET", "/v1/health", scope=PUBLIC),
    Row("GET", "/v1/health/ready", scope=PUBLIC),
    Row("GET", "/v1/status", scope="operator:read", namespaced=False),
]

ROWS: list[Row] = [
    *KEYS,
    *GRANTS,
    *SESSIONS,
    *AUDIT,
    *STATE,
    *WORKLOADS,
    *WORKERS,
    *SCHEDULES,
    *TRIGGERS,
    *OPERATIONS,
]
