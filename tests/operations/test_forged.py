"""Every form of the console that acts, sent by hand by somebody who may not: refused, and nothing is changed.

The forms are those that the pages offer an administrator, and whatever else the address map answers; a form that is
added fails until `OPERATOR` or `ADMINISTRATOR` says who may send it. "Nothing" is every row of every table, the
revision and label of every store, and the backups on disk. Cost: about half a minute.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.test import Client
from django.urls import reverse

from apps.keys import verify
from apps.keys.models import ApiKey, AuditEvent, Namespace
from apps.keys.principal import operator as principal
from apps.operations.services.operators import Role, create_operator
from apps.state import stores
from tests.operations import scenes
from tests.operations.every_page import Samples
from tests.operations.offered import Form, forms
from tests.operations.test_every_page import samples, text_of
from tests.operations.test_meanwhile import actions
from tests.operations.test_races import FILLED

__all__ = ["samples"]

pytestmark = pytest.mark.usefixtures("data_dir")

EVERYBODY = {"logout", "password_change"}
"""Forms about nobody but the person who sends them."""

OPERATOR = {
    "triggers_replay_cancel",
    *(f"triggers_trigger_act {act}" for act in ("archive", "disable", "enable", "pause", "resume")),
    *(f"triggers_trigger_{page}" for page in ("add", "edit", "rebase", "replay")),
    *(f"triggers_triggerquarantine_act {act}" for act in ("retry", "skip")),
    *(f"workloads_bulkorder_{act}" for act in ("choose", "discard", "start", "stop")),
    *(f"workloads_registeredworker_act {act}" for act in ("drain", "recover", "remove")),
    *(f"workloads_schedule_act {act}" for act in ("pause", "resume")),
    *(f"workloads_workload_{act}" for act in ("again", "approve", "cancel", "reject", "retry")),
}
"""What an operator may send, and a viewer may not."""

ADMINISTRATOR = {
    "backup_run",
    "backup_verify",
    "compaction_run",
    "keys_apikey_add",
    "keys_apikey_changelist",
    "keys_apikey_changelist revoke",
    "keys_apikey_rotate",
    "keys_apikey_tester",
    "keys_humansession_end",
    "keys_issuedgrant_revoke",
    *(f"keys_operator_act {act}" for act in ("password", "role", "start", "stop")),
    "keys_operator_add",
    "storage_acknowledge",
}
"""What only an administrator may send."""

ANOTHERS = {"workloads_bulkorder_start"}
"""Begun by whoever chose it alone: an operator is refused another's."""


def offered(console: Client, samples: Samples, first: list[str]) -> dict[str, Form]:
    """Return every form that some page offers an administrator, by its name."""
    key, keys = samples.rows[ApiKey].pk, reverse("admin:keys_apikey_changelist")
    named = [address for addresses in samples.addresses().values() for address in addresses]
    pages = [(address, console.get(address)) for address in (*first, *named)]
    pages.append((keys, console.post(keys, {"action": "revoke", "_selected_action": key})))  # asks once more
    found: dict[str, Form] = {}
    for address, answer in pages:
        text = text_of(answer)  # to its end: an export that is left open keeps others out
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            for form in forms(text, address):
                if form.pressed:
                    found.setdefault(form.name, form)
    chosen = {"action": "revoke", "_selected_action": key}
    found["keys_apikey_changelist"] = Form(address=keys, fields=chosen, pressed=True)
    return {name: form for name, form in found.items() if name not in EVERYBODY}


def filled(name: str, form: Form) -> dict[str, Any]:
    """Return what a person who may would send."""
    fields = {"reason": "", **form.fields, **FILLED.get(name, {})}
    return {**fields, "reason": fields["reason"] or "seen to"}


def everything() -> dict[str, Any]:
    """Return every row but those of sessions and of the audit, how every store stands, and which backups there are."""
    told: dict[str, Any] = {
        model._meta.label: sorted(map(repr, model._base_manager.values_list()))
        for model in apps.get_models()
        if model not in (Session, AuditEvent)
    }
    for name in Namespace.objects.values_list("pk", flat=True):
        opened = stores.store(name)
        told[f"store {name}"] = (opened.head().sequence, opened.health().storage)
    told["backups"] = sorted(map(str, settings.BACKUP_DIR.rglob("*")))
    return told


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return what is not as it was."""
    return [what for what in before | after if before.get(what) != after.get(what)]


def claims_of_the_audit() -> set[tuple[int, str]]:
    """Return every event that says something was done, beside giving out a file of what anybody may see."""
    done = AuditEvent.objects.filter(outcome="done").exclude(action__endswith=".exported")
    return set(done.values_list("pk", "action"))


@pytest.fixture
def everything_offered(console: Client, samples: Samples, namespace: str) -> dict[str, Form]:
    return offered(console, samples, scenes.pages(namespace))


@pytest.fixture
def signed_in(console: Client) -> Callable[[Role], Client]:
    """A function that signs a new person in, in that role, looking at the same namespace."""

    def enter(role: Role) -> Client:
        name = f"{role.value}-who-forges"
        client = Client(raise_request_exception=False)
        client.force_login(create_operator(name=name, password="pass of night 7Kq2", role=role, by=principal("tests")))
        session = client.session
        session["console_namespace"] = console.session["console_namespace"]
        session.save()
        return client

    return enter


def sent(client: Client, address: str, fields: dict[str, Any]) -> tuple[Any, list[str]]:
    """Send a form, take back whatever it did, and return the answer and what it changed."""
    here = transaction.savepoint()
    before, claimed = everything(), claims_of_the_audit()
    answer = client.post(address, fields)
    text_of(answer)
    changed = differences(before, everything()) + [str(each) for each in claims_of_the_audit() - claimed]
    transaction.savepoint_rollback(here)
    verify.forget_all()
    return answer, changed


def to_sign_in(answer: Any) -> bool:
    return answer.status_code == 302 and answer["Location"].startswith(reverse("admin:login"))


def test_who_may_send_is_said_of_every_form_and_every_action_is_among_them(everything_offered: dict[str, Form]) -> None:
    said = OPERATOR | ADMINISTRATOR
    assert set(everything_offered) - said == set(), "who may send this is not said here"
    assert said - set(everything_offered) == set(), "nothing offers this any more"
    assert actions() - said == set(), "an address acts, and no page offers it"


def test_a_form_forged_by_somebody_who_may_not_is_refused_and_nothing_is_changed(
    everything_offered: dict[str, Form], signed_in: Callable[[Role], Client]
) -> None:
    """By a viewer every form, by an operator those of administrators, by nobody every form again."""
    viewer, operator, nobody = signed_in(Role.VIEWER), signed_in(Role.OPERATOR), Client()
    wrong: list[Any] = []
    for name, form in everything_offered.items():
        for who, client in (("viewer", viewer), ("operator", operator), ("nobody", nobody)):
            if client is operator and name in OPERATOR:
                continue
            answer, changed = sent(client, form.address, filled(name, form))
            refused = to_sign_in(answer) if client is nobody else answer.status_code == 403
            if changed or not refused:
                wrong.append((name, who, answer.status_code, changed))
    assert not wrong, "\n".join(map(str, wrong))


def test_an_operator_sends_what_operators_may(
    everything_offered: dict[str, Form], signed_in: Callable[[Role], Client]
) -> None:
    """So that the table above is no list of what nobody may do."""
    client = signed_in(Role.OPERATOR)
    refused = set()
    for name in OPERATOR:
        form = everything_offered[name]
        if sent(client, form.address, filled(name, form))[0].status_code == 403:
            refused.add(name)
    assert refused == ANOTHERS


def test_no_address_of_the_map_acts_for_a_viewer_or_nobody_whatever_is_sent_there(
    console: Client, samples: Samples, signed_in: Callable[[Role], Client]
) -> None:
    said = {
        "action": "revoke",
        "confirmed": "1",
        "_selected_action": "1",
        "reason": "forged",
        "seen": "1",
        "act": "retry",
    }
    wrong: list[Any] = []
    for client in (signed_in(Role.VIEWER), Client()):
        before, claimed = everything(), claims_of_the_audit()
        for name, addresses in samples.addresses().items():
            answer = client.post(addresses[0], said)
            text_of(answer)
            if answer.status_code >= 500:
                wrong.append((name, answer.status_code))
        wrong += [*differences(before, everything()), *(claims_of_the_audit() - claimed)]
    assert not wrong, "\n".join(map(str, wrong))


def test_whoever_merely_opens_a_page_changes_nothing(console: Client, samples: Samples) -> None:
    """By any administrator's link, also to an address that acts; what is given out as a file is told in the audit."""
    before = everything()
    for addresses in samples.addresses().values():
        for address in addresses:
            text_of(console.get(address))
    assert differences(before, everything()) == []
