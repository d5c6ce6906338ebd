"""Triggers in the console: the form and its mistakes, one trigger's page, and what an operator can do with it."""

from typing import Any

import pytest
from django.test import Client

from apps.keys.principal import operator
from apps.triggers.models import Trigger
from apps.triggers.services import define
from tests.operations.conftest import NOW_MS

ADD = "/admin/triggers/trigger/add/"


def wanted(**fields: Any) -> dict[str, Any]:
    """Return the form as a browser sends it when only what is required is filled in."""
    return {
        "trigger_id": "order-paid",
        "source_collection": "orders",
        "change_kind": ["insert", "update"],
        "predicate": '{"field": "status", "equals": "paid"}',
        "target_capability": "identity",
        "start_from": "now",
        "enabled": "on",
        "priority": "0",
        "application_id": "default",
        "environment": "production",
        "definition_revision": "trigger",
        **fields,
    }


@pytest.fixture
def trigger(namespace: str) -> Trigger:
    document = {
        "trigger_id": "order-paid",
        "source_collection": "orders",
        "change_kind": ["insert", "update"],
        "predicate": {"field": "total", "op": "gt", "value": 1.0},
        "target_capability": "identity",
        "retry_policy": {"max_attempts": 7},
    }
    return define(namespace, document, by=operator("admin"), now_ms=NOW_MS).trigger


def test_the_form_defines_a_trigger_through_the_service(console: Client, namespace: str) -> None:
    answer = console.post(ADD, wanted(), follow=True)
    assert answer.status_code == 200 and "order-paid is defined" in answer.content.decode()
    made = Trigger.objects.get(namespace=namespace)
    assert (made.change_kinds, made.predicate) == (["insert", "update"], {"field": "status", "equals": "paid"})
    assert made.revisions.get().author == "human:admin"
    assert (made.requested_by_kind, made.requested_by_id, made.state) == ("human", "admin", "active")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("trigger_id", "", "This field is required"),
        ("source_collection", "_system", "cannot watch a system collection"),
        ("change_kind", [], "Choose at least one kind of change"),
        ("predicate", '{"field": "a" "equals": 1}', "This is not JSON"),
        ("predicate", '{"field": "a", "is": 1}', "(at /predicate"),
        ("predicate", '{"a": 1, "a": 2}', "This is not JSON"),
        ("retry_policy", '{"max_attempts": 0}', "max_attempts"),
        ("timeouts", '{"execution_ms": -1}', "execution_ms"),
        ("delay_ms", "-5", "delay_ms is a whole number"),
        ("priority", "high", "Enter a whole number"),
        ("depth_limit", "99", "depth_limit is a whole number"),
        ("authorization_snapshot", "[1]", "signed grant"),
    ],
)
def test_a_mistake_is_told_beside_its_field_and_nothing_is_stored(
    console: Client, field: str, value: Any, said: str
) -> None:
    answer = console.post(ADD, wanted(**{field: value}))
    form = answer.context["form"]
    assert answer.status_code in (400, 422)
    assert said in " ".join(form.errors.get(field, [])), form.errors
    assert "Nothing was stored" in answer.content.decode()
    assert not Trigger.objects.exists()


def test_what_was_typed_stays_in_the_form(console: Client) -> None:
    text = console.post(ADD, wanted(predicate='{"a": ')).content.decode()
    assert "{&quot;a&quot;: </textarea>" in text and 'value="orders"' in text


def test_one_page_shows_what_it_says_where_it_stands_and_its_revisions(console: Client, trigger: Trigger) -> None:
    text = console.get(f"/admin/triggers/trigger/{trigger.pk}/change/").content.decode()
    for part in ("orders", "&quot;value&quot;: 1.0", "up to date", "the whole definition", "/v1/triggers/order-paid"):
        assert part in text, part


def test_a_change_is_a_revision_and_keeps_what_was_not_changed(console: Client, trigger: Trigger) -> None:
    page = console.get(f"/admin/triggers/trigger/{trigger.pk}/edit/")
    shown = page.context["form"]
    form = {name: shown[name].value() for name in shown.fields if shown[name].value() not in (None, "")}
    answer = console.post(
        f"/admin/triggers/trigger/{trigger.pk}/edit/", {**form, "priority": "9", "seen": trigger.revision}, follow=True
    )
    assert "order-paid is changed" in answer.content.decode()
    after = Trigger.objects.get(pk=trigger.pk)
    assert (after.priority, after.revision, after.predicate) == (9, 2, trigger.predicate)
    assert after.retry_policy["max_attempts"] == 7
    assert set(after.revisions.get(revision=2).diff) == {"priority", "grant_id"}  # now under this person's authority


def test_a_change_of_what_somebody_else_changed_meanwhile_is_not_stored(console: Client, trigger: Trigger) -> None:
    path = f"/admin/triggers/trigger/{trigger.pk}/edit/"
    answer = console.post(path, wanted(seen="0"))
    assert answer.status_code == 409 and "has changed since the page was shown" in answer.content.decode()
    assert Trigger.objects.get(pk=trigger.pk).revision == 1


def act(console: Client, trigger: Trigger, action: str, **form: Any) -> Any:
    revision = Trigger.objects.get(pk=trigger.pk).revision
    path = f"/admin/triggers/trigger/{trigger.pk}/do/{action}/"
    return console.post(path, {"seen": revision, **form}, follow=True)


def test_pausing_with_a_reason_resuming_disabling_enabling_and_archiving(console: Client, trigger: Trigger) -> None:
    text = act(console, trigger, "pause", reason="a bad deploy", minutes="30").content.decode()
    paused = Trigger.objects.get(pk=trigger.pk)
    assert "a bad deploy" in text and paused.state == "paused" and paused.resumes_at_ms
    for action, state in (("resume", "active"), ("disable", "disabled"), ("enable", "active"), ("archive", "archived")):
        assert act(console, trigger, action).status_code == 200
        assert Trigger.objects.get(pk=trigger.pk).state == state
    authors = set(trigger.revisions.values_list("author", flat=True))
    assert authors == {"human:admin"} and trigger.revisions.count() == 6


def test_an_action_on_what_changed_meanwhile_is_explained_and_not_done(console: Client, trigger: Trigger) -> None:
    path = f"/admin/triggers/trigger/{trigger.pk}/do/disable/"
    assert console.post(path, {"seen": 1}).status_code == 302
    again = console.post(path, {"seen": 1})
    assert again.status_code == 409 and "disabled now" in again.content.decode()
    refused = act(console, trigger, "resume")
    assert refused.status_code == 409 and "is disabled, not paused" in refused.content.decode()
    assert console.post(f"/admin/triggers/trigger/{trigger.pk}/do/delete/", {}).status_code == 404


def test_the_list_tells_lag_and_last_work(console: Client, trigger: Trigger, make_work: Any) -> None:
    work = make_work(trigger="state_change:order-paid")
    make_work("other", trigger="state_change:order-paid-too")
    text = console.get("/admin/triggers/trigger/").content.decode()
    assert "up to date" in text and work.workload_id in text
