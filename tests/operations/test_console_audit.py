"""Whatever a person changes at the console is in the audit trail under their name, once per thing changed."""

import html
import re
from typing import Any

from django.test import Client

from apps.keys.audit.models import AuditEvent
from apps.keys.models import Operator
from apps.keys.principal import operator
from apps.triggers.services import define
from apps.workloads.models import BulkOrder
from tests.operations.offered import press
from tests.operations.scenes import RECOVERED, a_recovered_store
from tests.workloads.bulk_orders import carry_out


def told(action: str) -> list[tuple[str, str, str, str]]:
    events = AuditEvent.objects.filter(action=action).order_by("id")
    return [(event.subject, event.target, event.namespace, event.reason) for event in events]


def test_retrying_cancelling_and_bulk_are_audited_row_by_row(console: Client, make_dead: Any, namespace: str) -> None:
    one, two, three = (make_dead(key) for key in "abc")
    path = f"/admin/workloads/workload/{one.workload_id}"
    console.post(f"{path}/retry/", {"seen": one.history_length, "reason": "fixed"})
    for work, action, reason in ((two, "retry", "fixed too"), (three, "discard", "")):
        chosen = {"id": [work.workload_id], "act": action}
        order = console.post("/admin/workloads/bulkorder/choose/", chosen, follow=True).context["order"]
        console.post(f"/admin/workloads/bulkorder/{order.bulk_id}/start/", {"reason": reason})
        carry_out(BulkOrder.objects.get(pk=order.pk))
    who = "human:admin"
    assert told("workload.retry") == [
        (who, one.workload_id, namespace, "fixed"),
        (who, two.workload_id, namespace, "fixed too"),
    ]
    assert told("workload.cancel") == [(who, three.workload_id, namespace, "")]
    assert [row[3] for row in told("bulk.retry") + told("bulk.discard")] == ["fixed too", ""]


def test_what_was_done_to_a_thing_is_one_click_from_its_page(console: Client, make_dead: Any, namespace: str) -> None:
    dead = make_dead()
    document = {"source_collection": "orders", "change_kind": "insert", "target_capability": "identity"}
    trigger = define(namespace, {**document, "trigger_id": "t:1"}, by=operator("tests"), now_ms=1).trigger
    chosen = {"id": [dead.workload_id], "act": "retry"}
    order = console.post("/admin/workloads/bulkorder/choose/", chosen, follow=True).context["order"]
    press(console, f"/admin/workloads/bulkorder/{order.bulk_id}/change/", "start")
    carry_out(BulkOrder.objects.get(pk=order.pk))
    for page, action in (
        (f"/admin/workloads/workload/{dead.workload_id}/change/", "workload.retry"),
        (f"/admin/workloads/bulkorder/{order.bulk_id}/change/", "bulk.retry"),
        (f"/admin/triggers/trigger/{trigger.pk}/change/", "trigger.define"),
    ):
        (link,) = re.findall(r'href="([^"]+)">In the audit<', console.get(page).content.decode())
        found = console.get(html.unescape(link)).context["events"]
        assert [event.action for event in found] == [action]


def test_what_was_refused_leaves_no_event_of_a_change(console: Client, make_dead: Any) -> None:
    dead = make_dead()
    path = f"/admin/workloads/workload/{dead.workload_id}/retry/"
    for _ in range(3):
        console.post(path, {"seen": dead.history_length})
    assert len(told("workload.retry")) == 1


def test_accounts_and_storage_are_audited(console: Client) -> None:
    console.post("/admin/keys/operator/add/", {"name": "otto", "role": "viewer", "password": "correct horse battery"})
    otto = Operator.objects.get(username="otto")
    page = f"/admin/keys/operator/{otto.pk}/change/"
    press(console, page, "role", role="operator")
    press(console, page, "password", password="another horse battery")
    press(console, page, "stop")
    press(console, page, "start")
    for action in ("create", "role", "password", "stop", "start"):
        assert told(f"operator.{action}") == [("human:admin", "otto", "", "")], action
    assert "another horse" not in "".join(str(vars(event)) for event in AuditEvent.objects.all())
    a_recovered_store()
    press(console, "/admin/storage/", "storage_acknowledge")
    assert told("storage.acknowledge_recovery") == [("human:admin", RECOVERED, RECOVERED, "")]
