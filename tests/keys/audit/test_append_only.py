"""The audit trail is added to and read, and nothing else, by every way the code has."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction
from django.test.utils import CaptureQueriesContext

from apps.keys.audit import retention
from apps.keys.audit.models import AppendOnly, AuditEvent
from apps.keys.audit.services import record, record_in
from apps.keys.principal import operator

DAY_S = 86_400
NOW_MS = 1_800_000_000_000
ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.django_db


@pytest.fixture
def event() -> AuditEvent:
    """An event that is there."""
    return record(operator("ops"), "thing.done", target="it", at_ms=NOW_MS)


WAYS: dict[str, Callable[[AuditEvent], Any]] = {
    "save": lambda event: event.save(),
    "save by force": lambda event: event.save(force_update=True),
    "save of one member": lambda event: event.save(update_fields=["reason"]),
    "a fresh instance over it": lambda event: AuditEvent(pk=event.pk, at_ms=1, action="a", outcome="done").save(),
    "delete": lambda event: event.delete(),
    "update": lambda event: AuditEvent.objects.update(reason="x"),
    "update of some": lambda event: AuditEvent.objects.filter(pk=event.pk).update(reason="x"),
    "update of all": lambda event: AuditEvent.objects.all().update(reason="x"),
    "update or create": lambda event: AuditEvent.objects.update_or_create(pk=event.pk, defaults={"reason": "x"}),
    "bulk update": lambda event: AuditEvent.objects.bulk_update([event], ["reason"]),
    "bulk create over it": lambda event: AuditEvent.objects.bulk_create(
        [event], update_conflicts=True, update_fields=["reason"], unique_fields=["id"]
    ),
    "delete of some": lambda event: AuditEvent.objects.filter(pk=event.pk).delete(),
    "delete of all": lambda event: AuditEvent.objects.all().delete(),
    "delete through values": lambda event: AuditEvent.objects.values("pk").delete(),
    "the default manager": lambda event: AuditEvent._default_manager.all().delete(),
    "the base manager": lambda event: AuditEvent._base_manager.filter(pk=event.pk).update(reason="x"),
    "raw delete": lambda event: AuditEvent.objects.filter(pk=event.pk)._raw_delete("default"),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_way_of_the_orm_changes_or_removes_an_event(event: AuditEvent, way: Callable[[AuditEvent], Any]) -> None:
    before = list(AuditEvent.objects.values())
    event.reason = "changed"
    with pytest.raises((AppendOnly, IntegrityError)), transaction.atomic():
        way(event)
    assert list(AuditEvent.objects.values()) == before


def test_nothing_points_at_events_so_nothing_cascades_into_them() -> None:
    for model in apps.get_models():
        for field in model._meta.get_fields():
            assert not (isinstance(field, models.ForeignKey) and field.remote_field.model is AuditEvent)
    assert not [field for field in AuditEvent._meta.get_fields() if field.is_relation]


def test_only_retention_goes_around_the_manager_and_nobody_writes_the_table_by_hand() -> None:
    around: set[str] = set()
    for path in (ROOT / "apps").rglob("*.py"):
        if "migrations" in path.parts:
            continue
        text = path.read_text()
        name = str(path.relative_to(ROOT))
        if re.search(r'(?i)(update|from|into|table)\s+"?keys_auditevent', text):
            around.add(name)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "QuerySet":
                around.add(name)
    assert around == {"apps/keys/audit/retention.py"}


@pytest.mark.parametrize(
    "members", [{"action": ""}, {"outcome": "perhaps"}, {"count": 0}], ids=["no action", "unknown outcome", "no count"]
)
def test_the_database_refuses_an_event_that_says_nothing(members: dict[str, Any]) -> None:
    fields = {"at_ms": NOW_MS, "action": "a", "outcome": "done", **members}
    with pytest.raises(IntegrityError), transaction.atomic():
        AuditEvent.objects.create(**fields)


def test_an_event_is_there_exactly_when_what_it_tells_of_is() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        record(operator("ops"), "thing.done", target="it")
        raise ZeroDivisionError
    assert not AuditEvent.objects.exists()


def test_an_event_keeps_digests_of_what_was_before_and_after_never_the_values() -> None:
    before, after = {"name": "S3cr3t", "n": 1}, {"n": 1, "name": "S3cr3t-2"}
    event = record(operator("ops"), "thing.changed", target="it", before=before, after=after, reason="why")
    same = record(operator("ops"), "thing.changed", target="it", before=dict(reversed(before.items())))
    assert event.before_digest == same.before_digest != event.after_digest
    assert (len(event.after_digest), same.after_digest) == (64, "")
    assert "S3cr3t" not in str(AuditEvent.objects.filter(pk=event.pk).values())


def test_what_concerns_several_namespaces_is_seen_in_each_and_what_concerns_all_in_none() -> None:
    record_in(["a", "b", "*"], operator("ops"), "thing.done", target="it")
    assert sorted(AuditEvent.objects.values_list("namespace", flat=True)) == ["", "a", "b"]


def test_texts_longer_than_their_columns_are_cut() -> None:
    event = record(operator("o" * 400), "a" * 100, target="t" * 1000, reason="r" * 1000)
    event.refresh_from_db()
    assert (len(event.subject), len(event.action), len(event.target), len(event.reason)) == (256, 64, 512, 512)


def test_pruning_removes_what_is_older_in_small_transactions_and_leaves_an_event() -> None:
    for age_days in range(250):
        record(operator("ops"), "thing.done", target=str(age_days), at_ms=NOW_MS - age_days * DAY_S * 1000)
    with CaptureQueriesContext(connection) as queries:
        removed = retention.prune(older_than_s=9 * DAY_S, by=operator("ops"), now_ms=NOW_MS)
    assert removed == 240
    assert len([query for query in queries if query["sql"].startswith("DELETE")]) == 3
    left_over = AuditEvent.objects.filter(action="thing.done").values_list("target", flat=True)
    assert sorted(int(target) for target in left_over) == list(range(10))
    left = AuditEvent.objects.get(action="audit.pruned")
    assert (left.subject, left.reason) == ("human:ops", "240 events removed")
    assert retention.prune(older_than_s=9 * DAY_S, by=operator("ops"), now_ms=NOW_MS) == 0


def test_nobody_erases_what_they_did_today(event: AuditEvent) -> None:
    with pytest.raises(retention.RetentionRefused):
        retention.prune(older_than_s=DAY_S - 1, by=operator("ops"), now_ms=NOW_MS + 10**10)
    assert AuditEvent.objects.count() == 1
