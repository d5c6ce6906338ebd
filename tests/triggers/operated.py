"""What the tests of operators' actions on triggers share: an action, its refusal, and what it left behind."""

from typing import Any

import pytest

from apps.http.errors import ApiError
from apps.keys.audit.models import AuditEvent
from apps.triggers import changing, services
from tests.triggers.conftest import BY


def act(world: Any, name: str, *arguments: Any, trigger_id: str = "on-order", **kwargs: Any) -> Any:
    kwargs.setdefault("reason", "because")
    return getattr(services, name)(world.namespace, trigger_id, *arguments, by=BY, now_ms=world.now_ms, **kwargs)


def refusal(world: Any, name: str, *arguments: Any, **kwargs: Any) -> str:
    with pytest.raises(ApiError) as refused:
        act(world, name, *arguments, **kwargs)
    return refused.value.code


def audited() -> list[tuple[str, str, str]]:
    rows = AuditEvent.objects.filter(action__startswith="trigger.").order_by("pk")
    return list(rows.values_list("action", "target", "reason"))


def fired(results: Any) -> list[int]:
    return [int(row.source_change_id.rpartition(":")[2]) for row in results]


def block(world: Any, code: str = "FEED_COMPACTED") -> None:
    trigger = world.trigger()
    assert changing.block(trigger.pk, revision=trigger.revision, code=code, reason="why", now_ms=world.now_ms)


def without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.workloads.services import validation

    monkeypatch.setattr(validation, "find_secret", lambda *_: None)
