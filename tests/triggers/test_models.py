"""The constraints of the tables: each is tried and holds, by its name."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.triggers import limits
from apps.triggers.models import (
    EvaluatorLease,
    NamespacePosition,
    Trigger,
    TriggerCursor,
    TriggerQuarantine,
    TriggerRevision,
)

pytestmark = pytest.mark.django_db


def trigger(**members: Any) -> Trigger:
    values: dict[str, Any] = {
        "namespace": "test",
        "trigger_id": "t",
        "source_collection": "orders",
        "on_insert": True,
        "target_capability": "identity",
        "application_id": "app",
        "requested_by_kind": "service",
        "requested_by_id": "k1",
        "retry_policy": {},
        "timeouts": {},
        "created_at_ms": 1,
        "updated_at_ms": 1,
    }
    return Trigger(**(values | members))


def refuses(constraint: str, row: Any, columns: str = "") -> None:
    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        row.save(force_insert=True)
    text = str(refused.value)
    assert constraint in text or (columns and columns in text), text


@pytest.mark.parametrize(
    ("constraint", "members"),
    [
        ("trigger_is_named", {"trigger_id": ""}),
        ("trigger_is_named", {"application_id": ""}),
        ("trigger_is_named", {"target_capability": ""}),
        ("trigger_is_named", {"source_collection": ""}),
        ("trigger_is_named", {"requested_by_id": ""}),
        ("trigger_is_named", {"namespace": ""}),
        ("trigger_watches_some_kind", {"on_insert": False}),
        ("trigger_watches_no_system_collection", {"source_collection": "_flow"}),
        ("trigger_requester_is_known", {"requested_by_kind": "robot"}),
        ("trigger_waits_one_way", {"not_before_at_ms": 1, "delay_ms": 1}),
        ("trigger_delay_is_bounded", {"delay_ms": -1}),
        ("trigger_delay_is_bounded", {"delay_ms": limits.MAX_DELAY_MS + 1}),
        ("trigger_lag_is_bounded", {"max_lag_operations": 0}),
        ("trigger_lag_is_bounded", {"max_lag_operations": limits.MAX_LAG_OPERATIONS + 1}),
        ("trigger_depth_is_bounded", {"depth_limit": 0}),
        ("trigger_depth_is_bounded", {"depth_limit": limits.MAX_DEPTH + 1}),
        ("trigger_state_is_known", {"state": "asleep"}),
        ("trigger_reason_exactly_when_held_up", {"state": "paused"}),
        ("trigger_reason_exactly_when_held_up", {"state": "blocked"}),
        ("trigger_reason_exactly_when_held_up", {"state": "active", "reason_code": "X"}),
        ("trigger_reason_exactly_when_held_up", {"state": "disabled", "reason": "because"}),
        ("trigger_resumes_only_when_paused", {"state": "active", "resumes_at_ms": 1}),
        ("trigger_revision_counts_from_one", {"revision": 0}),
    ],
)
def test_a_trigger_row_that_makes_no_sense_cannot_be_stored(constraint: str, members: dict[str, Any]) -> None:
    if members.get("state") == "asleep":  # an unknown state breaks the rule on reasons as well
        with pytest.raises(IntegrityError), transaction.atomic():
            trigger(**members).save(force_insert=True)
        return
    refuses(constraint, trigger(**members))


def test_an_id_is_taken_once_in_a_namespace() -> None:
    trigger().save()
    refuses("trigger_id_unique_in_namespace", trigger(), "triggers_trigger.namespace, triggers_trigger.trigger_id")
    trigger(namespace="other").save()


def test_a_cursor_is_never_negative_and_names_its_timeline() -> None:
    one = trigger()
    one.save()
    common = {"trigger": one, "namespace": "test", "revision": 1, "live": True}
    refuses("trigger_cursor_not_negative", TriggerCursor(instance_id="i", sequence=-1, **common))
    refuses("trigger_cursor_names_its_timeline", TriggerCursor(instance_id="", sequence=0, **common))


def test_a_trigger_has_one_cursor() -> None:
    one = trigger()
    one.save()
    common = {"trigger": one, "namespace": "test", "revision": 1, "live": True, "instance_id": "i"}
    TriggerCursor.objects.create(sequence=0, **common)
    refuses("triggers_triggercursor_pkey", TriggerCursor(sequence=1, **common), "triggers_triggercursor.trigger_id")


def test_a_revision_has_an_author_a_known_action_and_its_number_once() -> None:
    one = trigger()
    one.save()
    common = {"trigger": one, "namespace": "test", "at_ms": 1, "diff": {}, "definition": {}, "revision": 1}
    refuses("trigger_revision_has_an_author", TriggerRevision(action="define", author="", **common))
    refuses("trigger_revision_action_is_known", TriggerRevision(action="wish", author="a", **common))
    TriggerRevision.objects.create(action="define", author="a", **common)
    refuses(
        "trigger_revision_unique",
        TriggerRevision(action="define", author="a", **common),
        "triggers_triggerrevision.trigger_id, triggers_triggerrevision.revision",
    )


def test_a_change_is_quarantined_once_with_a_code_and_resolved_by_somebody() -> None:
    one = trigger()
    one.save()
    common = {
        "trigger": one,
        "namespace": "test",
        "instance_id": "i",
        "sequence": 1,
        "record_key": "orders:1",
        "change_kind": "insert",
        "content_hash": "0" * 64,
        "trigger_revision": 1,
        "message": "m",
        "at_ms": 1,
    }
    refuses("trigger_quarantine_has_a_code", TriggerQuarantine(code="", **common))
    refuses("trigger_quarantine_resolved_by_and_when", TriggerQuarantine(code="C", resolved_at_ms=1, **common))
    refuses("trigger_quarantine_resolved_by_and_when", TriggerQuarantine(code="C", resolved_by="me", **common))
    TriggerQuarantine.objects.create(code="C", **common)
    again = TriggerQuarantine(code="C", **common)
    refuses("trigger_quarantine_once_per_change", again, "triggers_triggerquarantine.sequence")


def test_a_position_has_a_hash_exactly_when_something_was_seen_and_names_its_store() -> None:
    common = {"namespace": "test", "instance_id": "i", "updated_at_ms": 1}
    refuses("position_hash_exactly_when_seen", NamespacePosition(store_id="s", sequence=1, **common))
    refuses("position_hash_exactly_when_seen", NamespacePosition(store_id="s", content_hash="x", **common))
    refuses("position_names_its_store", NamespacePosition(store_id="", **common))


def test_a_lease_has_a_holder() -> None:
    refuses("evaluator_lease_has_a_holder", EvaluatorLease(namespace="test", holder="", expires_at_ms=1))
