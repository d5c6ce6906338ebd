"""Every action of the console, pressed on a page that is out of date: nothing is done, and the same page tells how
things stand now, with 409.

The actions are those of the address map and of the admin classes, the forms those of the pages: an action that is
added fails until something is said here that may come between. Cost: about a minute.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.db import transaction
from django.test import Client
from django.urls import resolve

from apps.http.pages.acting import ActingAdmin
from apps.keys import services as keys
from apps.keys import verify
from apps.keys.clock import now_ms as keys_now_ms
from apps.keys.grants import services as grants
from apps.keys.models import ApiKey, AuditEvent, HumanSession, IssuedGrant, Operator
from apps.keys.sessions import services as sessions
from apps.operations.services import operators, storage
from apps.operations.services.operators import Role
from apps.triggers import services as triggers
from apps.triggers.models import Trigger, TriggerQuarantine
from apps.workloads import bulk, by_hand, services
from apps.workloads.clock import now_ms
from apps.workloads.commands import Completion, Fence, WorkerRegistration
from apps.workloads.models import BulkOrder, RegisteredWorker, Schedule, Workload
from apps.workloads.services import fencing, registry, scheduling
from apps.workloads.states import BulkState
from tests.operations import scenes
from tests.operations.every_page import Samples
from tests.operations.offered import Form
from tests.operations.test_every_page import ACTIONS_ONLY, samples, text_of
from tests.operations.test_pages import check_is_strict
from tests.operations.test_races import FILLED, IN_BACKGROUND, NO_ACTION, offered
from tests.workloads.bulk_orders import carry_out

__all__ = ["samples"]

pytestmark = pytest.mark.usefixtures("data_dir")

BY = scenes.BY
Between = Callable[[Form], object]


def row(model: Any, form: Form) -> Any:
    """Return the row that a form is about, by what its address or its fields name."""
    named = resolve(form.address).kwargs
    if model is Workload:
        return Workload.objects.get(workload_id=named["workload_id"])
    if model is BulkOrder:
        return BulkOrder.objects.get(bulk_id=named["bulk_id"])
    other = named.get("key_id") or named.get("session_id") or form.fields.get("_selected_action")
    return model.objects.get(pk=named.get("pk") or other)


def issued_meanwhile(form: Form) -> None:
    keys.issue_key(name="k", scopes=["state:read"], namespaces=["default"], issuer=BY, key_id=form.fields["key_id"])


def rotated(form: Form) -> None:
    keys.rotate_key(row(ApiKey, form).pk, by=BY)


def revoked(form: Form) -> None:
    keys.revoke_key(row(ApiKey, form).pk, by=BY)


def signed_out(form: Form) -> None:
    sessions.end(row(HumanSession, form), by=BY, now_ms=keys_now_ms())


def grant_revoked(form: Form) -> None:
    grant = row(IssuedGrant, form)
    grants.revoke(grant.grant_id, BY, tenant_id=grant.namespace, now_ms=keys_now_ms())


def promoted(form: Form) -> None:
    operators.set_role(row(Operator, form).pk, Role.OPERATOR, by=BY)


def stopped(form: Form) -> None:
    operators.set_active(row(Operator, form).pk, False, by=BY)


def let_go_on(form: Form) -> None:
    operators.set_active(row(Operator, form).pk, True, by=BY)


def made_meanwhile(form: Form) -> None:
    operators.create_operator(name="vera2", password="correct horse battery", role=Role.VIEWER, by=BY)


def defined_meanwhile(form: Form) -> None:
    triggers.define(
        "test",
        {"trigger_id": "new", "source_collection": "other", "change_kind": "delete", "target_capability": "print"},
        by=BY,
        now_ms=now_ms(),
    )


def redefined(form: Form) -> None:
    trigger = row(Trigger, form)
    triggers.revise(trigger.namespace, trigger.trigger_id, {"priority": 77}, by=BY, now_ms=now_ms())


def archived(form: Form) -> None:
    trigger = row(Trigger, form)
    triggers.archive(trigger.namespace, trigger.trigger_id, by=BY, now_ms=now_ms())


def paused(form: Form) -> None:
    trigger = row(Trigger, form)
    triggers.pause(trigger.namespace, trigger.trigger_id, by=BY, now_ms=now_ms(), reason="")


def replayed(form: Form) -> None:
    trigger = row(Trigger, form)
    whole = {"start_from": "beginning", "end_at": "now"}
    triggers.replay(trigger.namespace, trigger.trigger_id, **whole, by=BY, now_ms=now_ms(), reason="")


def replay_ended(form: Form) -> None:
    trigger = row(Trigger, form)
    triggers.cancel_replay(trigger.namespace, trigger.trigger_id, 1, by=BY, now_ms=now_ms())


def set_aside_for_good(form: Form) -> None:
    change = row(TriggerQuarantine, form)
    place = f"{change.instance_id}:{change.sequence}"
    triggers.skip(change.namespace, change.trigger.trigger_id, place, by=BY, now_ms=now_ms(), reason="not due")


def made_into_work(form: Form) -> None:
    change = row(TriggerQuarantine, form)
    place = f"{change.instance_id}:{change.sequence}"
    triggers.retry(change.namespace, change.trigger.trigger_id, place, by=BY, now_ms=now_ms())


def started(form: Form) -> None:
    order = row(BulkOrder, form)
    bulk.start(order.namespace, order.bulk_id, by=scenes.author(order), now_ms=now_ms())


def carried_out(form: Form) -> None:
    if row(BulkOrder, form).state == BulkState.DRAFT:
        started(form)
    carry_out(row(BulkOrder, form))


def started_and_stopped(form: Form) -> None:
    started(form)
    order = row(BulkOrder, form)
    bulk.stop(order.namespace, order.bulk_id, by=scenes.author(order), now_ms=now_ms())


def fell_silent(form: Form) -> None:
    worker = row(RegisteredWorker, form)
    RegisteredWorker.objects.filter(pk=worker.pk).update(seen_at_ms=worker.registered_at_ms)
    registry.detect_silence(now_ms=now_ms() + 10 * 60_000)


def came_back(form: Form) -> None:
    worker = row(RegisteredWorker, form)
    command = WorkerRegistration(
        namespace=worker.namespace,
        worker_id=worker.worker_id,
        capabilities=frozenset({"print"}),
        workload_kinds=frozenset(),
        concurrency=2,
    )
    registry.register(command, by=BY, now_ms=now_ms())


def rescheduled(form: Form) -> None:
    schedule = row(Schedule, form)
    definition = scheduling.ScheduleDefinition(
        namespace=schedule.namespace,
        schedule_id=schedule.schedule_id,
        expression="0 4 * * *",
        time_zone="Europe/Berlin",
        work={"definition_id": "identity", "input": {"n": 2}},
    )
    scheduling.define(definition, by=BY, requested_by=scenes.SUBJECT, now_ms=now_ms())


def retried(form: Form) -> None:
    by_hand.act("retry", row(Workload, form), by=BY, now_ms=now_ms())


def cancelled(form: Form) -> None:
    by_hand.act("cancel", row(Workload, form), by=BY, now_ms=now_ms())


def asked_again(form: Form) -> None:
    by_hand.ask_again(row(Workload, form), {"n": 2}, key="another person's", by=BY, now_ms=now_ms())


def finished(form: Form) -> None:
    """Let the worker that holds the work end it."""
    work = row(Workload, form)
    fence = Fence(
        namespace=work.namespace,
        workload_id=work.workload_id,
        worker_id=work.worker_id,
        claim_id=fencing.current_claim_id(work) or "",
        fencing_token=work.fencing_token,
        principal=work.claimed_by,
    )
    services.complete(fence, Completion(result_id="r1", output={}), now_ms=now_ms())


def looked_at(form: Form) -> None:
    namespace = resolve(form.address).kwargs["namespace"]
    storage.acknowledge_recovery(namespace, by=BY, seen=form.fields["seen"])


OF_A_TRIGGER: tuple[tuple[Between, str], ...] = ((redefined, "It is at revision"), (archived, "archived now"))
MEANWHILE: dict[str, tuple[tuple[Between, str], ...]] = {
    "keys_apikey_add": ((issued_meanwhile, "was shown to who pressed first"),),
    "keys_apikey_changelist revoke": ((revoked, "revoked already"),),
    "keys_apikey_rotate": ((rotated, "was given a new secret since"), (revoked, "is revoked")),
    "keys_humansession_end": ((signed_out, "had ended already"),),
    "keys_issuedgrant_revoke": ((grant_revoked, "was revoked already"),),
    "keys_operator_act password": ((promoted, "with the role operator"), (stopped, "stopped now")),
    "keys_operator_act role": ((promoted, "with the role operator"), (stopped, "stopped now")),
    "keys_operator_act start": ((let_go_on, "active now"),),
    "keys_operator_act stop": ((stopped, "stopped now"), (promoted, "with the role operator")),
    "keys_operator_add": ((made_meanwhile, "There is somebody named"),),
    "storage_acknowledge": ((looked_at, "looked at already"),),
    "triggers_replay_cancel": ((replay_ended, "has ended already"),),
    "triggers_trigger_add": ((defined_meanwhile, "there is a trigger new already"),),
    "triggers_trigger_edit": OF_A_TRIGGER,
    "triggers_trigger_rebase": OF_A_TRIGGER,
    "triggers_trigger_replay": ((replayed, "another replay was"), (paused, "is paused"), (archived, "archived")),
    **{f"triggers_trigger_act {act}": OF_A_TRIGGER for act in ("archive", "disable", "enable", "pause", "resume")},
    "triggers_triggerquarantine_act retry": (
        (set_aside_for_good, "seen to meanwhile"),
        (made_into_work, "seen to meanwhile"),
    ),
    "triggers_triggerquarantine_act skip": (
        (set_aside_for_good, "seen to meanwhile"),
        (made_into_work, "seen to meanwhile"),
    ),
    "workloads_bulkorder_discard": ((started, "started already"), (carried_out, "started already")),
    "workloads_bulkorder_start": ((carried_out, "has ended"), (started_and_stopped, "stopped it")),
    "workloads_bulkorder_stop": ((carried_out, "SUCCEEDED"),),
    "workloads_registeredworker_act drain": ((fell_silent, "offline now"), (came_back, "registered now")),
    "workloads_registeredworker_act recover": ((came_back, "registered now"),),
    "workloads_registeredworker_act remove": ((fell_silent, "offline now"), (came_back, "registered now")),
    "workloads_schedule_act pause": ((rescheduled, "It is at revision"),),
    "workloads_schedule_act resume": ((rescheduled, "It is at revision"),),
    "workloads_workload_again": ((retried, "ready now"), (asked_again, "asked for again meanwhile")),
    "workloads_workload_approve": ((cancelled, "cancelled now"),),
    "workloads_workload_cancel": ((finished, "succeeded now"), (cancelled, "cancellation requested now")),
    "workloads_workload_reject": ((cancelled, "cancelled now"),),
    "workloads_workload_retry": (
        (retried, "ready now"),
        (cancelled, "cancelled now"),
        (asked_again, "both would do the work"),
    ),
}
"""What may come between a page and the press of its button, and what the answer says of it."""

TYPED_WRONG = {"keys_operator_add"}
"""Answered as what was typed wrongly is: there is somebody of that name."""


def actions() -> set[str]:
    """Return every action there is, by the name of its address and, where one address has several, its own."""
    several = {f"{each.opts.app_label}_{each.opts.model_name}_act": each for each in admin.site._registry.values()}
    found = set()
    for name in ACTIONS_ONLY - {"workloads_refusedword_change", "workloads_registeredworker_changelist"}:
        owner = several.get(name)
        found |= {f"{name} {act}" for act in owner.acts} if isinstance(owner, ActingAdmin) else {name}
    return found


def done() -> int:
    """Return how many events there are; who may define a trigger has the authority for it noted before it is tried."""
    return AuditEvent.objects.exclude(action="grant.issued").count()


@pytest.fixture
def everything_offered(console: Client, samples: Samples, namespace: str) -> dict[str, Form]:
    return offered(console, samples, scenes.pages(namespace))


def test_every_action_is_on_some_page_and_something_may_come_between(everything_offered: dict[str, Form]) -> None:
    elsewhere = NO_ACTION | IN_BACKGROUND
    assert actions() - elsewhere - set(everything_offered) == set(), "no page of the samples and scenes offers this"
    assert set(everything_offered) - set(MEANWHILE) == set(), "nothing is said here that may come between"
    assert set(MEANWHILE) - set(everything_offered) == set(), "nothing offers this any more"


def test_a_button_of_a_page_that_is_out_of_date_does_nothing_and_tells_how_things_stand(
    console: Client, everything_offered: dict[str, Form]
) -> None:
    wrong: list[Any] = []
    for name, form in everything_offered.items():
        fields = {"reason": "", **form.fields, **FILLED.get(name, {})}
        fields["reason"] = fields["reason"] or "seen to"
        for between, told in MEANWHILE[name]:
            here = transaction.savepoint()
            between(form)
            events = done()
            answer = console.post(form.address, fields)
            shown = text_of(answer)
            more = done() - events
            transaction.savepoint_rollback(here)
            verify.forget_all()
            if more:
                wrong.append((name, between.__name__, "was done all the same"))
            if answer.status_code != (422 if name in TYPED_WRONG else 409):
                wrong.append((name, between.__name__, answer.status_code))
                continue
            check_is_strict(answer)
            if told not in shown:
                wrong.append((name, between.__name__, "does not tell", told))
            if 'role="alert"' not in shown:
                wrong.append((name, between.__name__, "has no alert"))
            if not re.search(r"<title>(Not done|Error|Nothing was done)\b", shown):
                wrong.append((name, between.__name__, "has the title of a page on which all went well"))
    assert not wrong, "\n".join(map(str, wrong))
