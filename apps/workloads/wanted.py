"""What work is wanted, from its JSON form: the members that HTTP bodies, schedules and the command line have in common.

The values are checked for shape before (`api/schemas.py`) and for sense after (`services/validation.py`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from apps.workloads.commands import ApprovalPolicy, DependsOn, RetryPolicy, Timeouts

PLAIN = (
    "definition_id",
    "idempotency_key",
    "input",
    "application_id",
    "environment",
    "definition_revision",
    "trigger",
    "authorization_snapshot",
    "priority",
    "when_unreachable",
    "not_before_at_ms",
)


def members(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return those members of a checked body that say what work is wanted, as `CreateWorkload` takes them."""
    found = {name: body[name] for name in PLAIN if name in body}
    found |= {name: read(body[name]) for name, read in _READ.items() if body.get(name) is not None}
    return found


def _retry_policy(given: Mapping[str, Any]) -> RetryPolicy:
    return RetryPolicy(**{**given, **({"retry_on": frozenset(given["retry_on"])} if "retry_on" in given else {})})


_READ: dict[str, Callable[[Any], Any]] = {
    "session_id": str,
    "capability_snapshot": frozenset,
    "connection_scopes": frozenset,
    "retry_policy": _retry_policy,
    "timeouts": lambda given: Timeouts(**given),
    "approval": lambda given: ApprovalPolicy.from_json({"approver_kinds": ["human"], **given}),
    "dependencies": lambda given: tuple(DependsOn(**each) for each in given),
}
