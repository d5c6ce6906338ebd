"""Principals that hold keys, and grants of theirs, at a fixed instant."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.keys.grants import services
from apps.keys.grants.checking import Decision
from apps.keys.grants.form import GrantSubject, Resource
from apps.keys.grants.models import IssuedGrant
from apps.keys.grants.rules import Context
from apps.keys.principal import Principal
from apps.keys.verify import principal_for

NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000
NOW = datetime.fromtimestamp(NOW_S, tz=UTC)
HOUR_S = 3600
WORKER = GrantSubject("worker", "w1")
ORDERS = "flow://app/state/orders"
CLAIM = "flow://app/workloads/workload_1"
AGENT = GrantSubject("agent", "a")
LATER_MS = NOW_MS + HOUR_S * 1000

Give = Callable[..., IssuedGrant]
Ask = Callable[..., Decision]
Holder = Callable[..., "Held"]


@dataclass(frozen=True, slots=True)
class Held:
    """A key in its row and as who comes in with it."""

    key: Any
    principal: Principal


@pytest.fixture
def holder(make_key: Callable[..., Any]) -> Callable[..., Held]:
    """A function that makes a key: `holder(scopes=[...], worker_id=..., ...)`."""

    def make(**members: Any) -> Held:
        issued = make_key(now=NOW, **members)
        return Held(issued.key, principal_for(issued.key))

    return make


@pytest.fixture
def give(namespace: str) -> Callable[..., IssuedGrant]:
    """A function that issues: by a principal, to the worker w1, for an hour, unless told otherwise."""

    def issue(principal: Principal, **members: Any) -> IssuedGrant:
        asked: dict[str, Any] = {
            "tenant_id": namespace,
            "application_id": "app",
            "subject": WORKER,
            "capabilities": ["state:read", "workload:claim"],
            "scopes": [Resource("APPLICATION", "flow://app")],
            "expires_at": NOW_S + HOUR_S,
            "now_ms": NOW_MS,
            **members,
        }
        return services.issue(principal, **asked)

    return issue


@pytest.fixture
def ask(namespace: str) -> Callable[..., Decision]:
    """A function that verifies: may w1 read orders now, unless told otherwise."""

    def verify(signed: Any, **members: Any) -> Decision:
        question: dict[str, Any] = {
            "subject": WORKER,
            "tenant_id": namespace,
            "application_id": "app",
            "capability": "state:read",
            "resource": ORDERS,
            "context": Context(),
            "now_ms": NOW_MS,
            **members,
        }
        presented = signed.signed().wire() if isinstance(signed, IssuedGrant) else signed
        return services.verify(presented, **question)

    return verify


def child_of(parent: IssuedGrant, by: Held, **members: Any) -> IssuedGrant:
    """Delegate the grant, by default to the agent and with all it has."""
    asked = {"tenant_id": parent.namespace, "subject": AGENT, "now_ms": NOW_MS, **members}
    return services.delegate(parent.grant_id, by.principal, **asked)


def worker(holder: Holder, **members: Any) -> Held:
    """Return the worker w1, who may delegate what it is given."""
    return holder(worker_id="w1", scopes=members.pop("scopes", ["grants:write"]), **members)
