"""The closed list of scopes: what a key may be allowed to do."""

EVERYTHING = "*"

SCOPES: dict[str, str] = {
    "state:read": "read records, collections and history",
    "state:write": "write records and transactions",
    "events:read": "follow the feed of changes",
    "schema:write": "change a namespace's contract",
    "capabilities:read": "read stored capabilities",
    "capabilities:write": "store capabilities",
    "triggers:read": "read triggers and where they stand",
    "triggers:write": "define, change and evaluate triggers",
    "workload:create": "create work",
    "workload:read": "read work, its history and results",
    "workload:claim": "claim work",
    "workload:execute": "start, keep alive, complete and fail claimed work",
    "workload:cancel": "cancel work",
    "workload:retry": "retry dead work",
    "workload:approve": "approve or reject work",
    "worker:register": "register workers",
    "worker:heartbeat": "report a worker alive",
    "worker:manage": "drain, recover and remove workers",
    "grants:write": "issue, delegate and revoke grants",
    "keys:admin": "issue, list and revoke keys",
    "operator:read": "read the operator's view: metrics, health, diagnostics",
    "operator:write": "run operator actions",
    "audit:read": "read the audit",
    EVERYTHING: "everything above",
}
