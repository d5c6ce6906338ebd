"""Every action that any page offers, pressed twice from the same page: it is done once, and the second press is told
how things stand now. The forms are those of the pages, so that a new action is tried without being named here.

Cost: about three seconds.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from apps.keys import verify
from apps.keys.models import ApiKey, AuditEvent
from tests.operations import scenes
from tests.operations.every_page import Samples
from tests.operations.offered import Form, forms
from tests.operations.test_every_page import samples, text_of
from tests.operations.test_pages import check_is_strict

__all__ = ["samples"]

pytestmark = pytest.mark.usefixtures("data_dir")

NO_ACTION = {
    "logout",
    "password_change",
    "keys_apikey_tester",
    "keys_apikey_changelist",
    "workloads_bulkorder_choose",
}
"""Forms by which nothing is done, or by which the same is so after the second press: a draft, the password given."""

IN_BACKGROUND = {"backup_run", "backup_verify", "compaction_run"}
"""Begun beside the request, one at a time: tried with real threads in test_backup_pages.py."""

FILLED: dict[str, dict[str, Any]] = {
    "keys_apikey_add": {"name": "k", "scopes": ["state:read"]},
    "keys_operator_add": {"name": "vera2", "password": "correct horse battery", "role": "viewer"},
    "keys_operator_act password": {"password": "another horse battery"},
    "keys_operator_act role": {"role": "administrator"},
    "triggers_trigger_add": {
        "trigger_id": "new",
        "source_collection": "c",
        "change_kind": "insert",
        "target_capability": "identity",
    },
    "triggers_trigger_edit": {"priority": "7"},
}
"""What a person has to say in a form as it is shown."""

GONE = {"workloads_registeredworker_act remove"}
"""Actions after which there is no such page."""

UNTOLD = {"workloads_bulkorder_discard"}
"""Not in the audit: a draft is forgotten by which nothing was done."""

TAKEN = {"keys_operator_add"}
"""Refused the second time as what was typed wrongly is: there is somebody of that name."""


def offered(console: Client, samples: Samples, first: Sequence[str]) -> dict[str, Form]:
    """Return each action by its name, as some page offers it: one of `first`, else one of the samples'."""
    found: dict[str, Form] = {}
    named = [address for addresses in samples.addresses().values() for address in addresses]
    pages = [(address, console.get(address)) for address in (*first, *named)]
    keys = "/admin/keys/apikey/"
    key = samples.rows[ApiKey].pk
    pages.append((keys, console.post(keys, {"action": "revoke", "_selected_action": key})))  # asks once more
    for address, answer in pages:
        text = text_of(answer)  # to its end: an export that is left open keeps others out
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            for form in forms(text, address):
                if form.name not in NO_ACTION | IN_BACKGROUND and form.pressed:
                    found.setdefault(form.name, form)
    return found


def acted(answer: Any, events: int) -> bool:
    """Whether an answer says that something was done, and the audit that it was."""
    return answer.status_code in (200, 302) and events > 0


def test_every_action_pressed_twice_is_done_once(console: Client, samples: Samples, namespace: str) -> None:
    wrong: list[Any] = []
    tried = 0
    for name, form in offered(console, samples, scenes.pages(namespace)).items():
        fields = {"reason": "", **form.fields, **FILLED.get(name, {})}
        fields["reason"] = fields["reason"] or "seen to"
        here = transaction.savepoint()
        counts, answers = [AuditEvent.objects.count()], []
        for _ in range(2):
            answers.append(console.post(form.address, fields))
            counts.append(AuditEvent.objects.count())
        transaction.savepoint_rollback(here)
        verify.forget_all()
        first, second = answers
        if name not in UNTOLD and not acted(first, counts[1] - counts[0]):
            wrong.append((name, "was not done", first.status_code, fields, text_of(first)[-3000:]))
        if counts[2] != counts[1]:
            wrong.append((name, "was done twice", second.status_code))
        wanted = {302, 409} | ({404} if name in GONE else set()) | ({422} if name in TAKEN else set())
        if second.status_code not in wanted:
            wrong.append((name, "answered", second.status_code))
        if second.status_code == 409:
            check_is_strict(second)
            if 'role="alert"' not in text_of(second):
                wrong.append((name, "does not say how things stand"))
        tried += 1
    assert not wrong, wrong
    assert tried >= 20, "the pages offer less than they did"
