"""Every page of the console by its URL map: it answers, asks little, is strict, shows what is hostile harmlessly.

Cost: three walks of about a second each.
"""

import csv
import io
import json
import re
from typing import Any

import orjson
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.keys.models import AuditEvent, Operator
from apps.operations.services.roles import Role, ensure_roles
from apps.state import stores
from feltdb_engine.model import Actor, Mutation
from tests.operations.every_page import Samples
from tests.operations.rows import a_backup
from tests.operations.test_pages import check_is_strict

MAX_QUERIES = 15
HOSTILE = "<b>&\u202e\u200f'\"\\ {{ 7 }} =1+1"
LONG_NAME = ".".join(["a"] * 200)
"""200 levels."""

ACTIONS_ONLY = {
    "backup_run",
    "backup_verify",
    "compaction_run",
    "storage_acknowledge",
    "keys_humansession_end",
    "keys_issuedgrant_revoke",
    "keys_operator_act",
    "triggers_replay_cancel",
    "triggers_trigger_act",
    "triggers_triggerquarantine_act",
    "workloads_bulkorder_choose",
    "workloads_bulkorder_discard",
    "workloads_bulkorder_start",
    "workloads_bulkorder_stop",
    "workloads_refusedword_change",
    "workloads_registeredworker_act",
    "workloads_registeredworker_changelist",
    "workloads_schedule_act",
    "workloads_workload_again",
    "workloads_workload_approve",
    "workloads_workload_cancel",
    "workloads_workload_reject",
    "workloads_workload_retry",
}
"""Addresses that act: they send whoever merely opens them to the page they belong to."""


@pytest.fixture
def samples(
    one_of_each: dict[Any, Any], namespace: str, data_dir: Any, make_dead: Any, make_key: Any, settings: Any
) -> Samples:
    from apps.keys.models import ApiKey, HumanSession, IssuedGrant, Namespace, Operator
    from apps.triggers.models import Trigger, TriggerQuarantine
    from apps.workloads.models import BulkOrder, RegisteredWorker, Schedule, Workload

    rows = one_of_each
    dead = make_dead("hostile", error=HOSTILE, input={HOSTILE: HOSTILE, LONG_NAME: 2**64 - 1}, definition_id=HOSTILE)
    rows[Workload] = dead
    opened = stores.store(namespace)
    nested: Any = HOSTILE
    for level in range(60):
        nested = {HOSTILE: nested} if level % 2 else [nested]
    value = {
        "nested": nested,
        HOSTILE: HOSTILE,
        LONG_NAME: {"exact": 9007199254740993},
        "many": ["x" * 1000] * 1000,
        "part": 2.0,
    }
    actor = Actor(subject=HOSTILE, key_id=rows[ApiKey].pk, workload_id=dead.workload_id, trigger_id="t")
    for number in range(3):
        put = Mutation(kind="put", collection="c", id=HOSTILE, value={**value, "number": number})
        opened.commit([put], transaction_id=f"tx {HOSTILE} {number}", actor=actor)
    opened.activate_contract({"collections": {"c": {"schema": {"type": "object", "title": HOSTILE}}}})
    Trigger.objects.filter(pk=rows[Trigger].pk).update(not_before_at_ms=2**50)  # beyond any calendar
    Operator.objects.filter(pk=rows[Operator].pk).update(username="admin")
    settings.BACKUP_DIR = data_dir / "backups"
    for name in ("broken", HOSTILE):
        (settings.BACKUP_DIR / name).mkdir(parents=True)
    one: dict[str, Any] = {"collection": "c", "id": HOSTILE}
    own: dict[str, tuple[list[Any], list[dict[str, Any]]]] = {
        "index": ([], [{}]),
        "search": ([], [{}, {"q": HOSTILE}, {"q": "2"}, {"q": dead.workload_id}]),
        "app_list": (["keys"], [{}]),
        "login": ([], [{}]),
        "password_change": ([], [{}]),
        "password_change_done": ([], [{}]),
        "collections": ([], [{}]),
        "records": ([], [{"collection": "c"}, {"collection": "c", "as_of": 1}, {"collection": "c", "text": "x"}]),
        "record": ([], [one, {**one, "as_of": 1}]),
        "record_value": ([], [one, {"sequence": 1}]),
        "changes": ([], [{}, {"collection": "c"}, {"upto": 2}]),
        "change": ([], [{"sequence": 2}]),
        "transaction": ([], [{"sequence": 2}, {"id": f"tx {HOSTILE} 0"}]),
        "work_provenance": ([dead.workload_id], [{}]),
        **{
            name: ([], [{}])
            for name in ("contract", "doctor", "overload", "capacity", "rates", "compaction", "compaction_run")
        },
        **{name: ([], [{}]) for name in ("backups", "backup_run", "backup_verify")},
        "backup": ([], [{"name": a_backup(settings.BACKUP_DIR, "nightly", namespace)}, {"name": "broken"}]),
        "ledger": ([], [{}, {"key": "hostile"}, {"key": f"tx {HOSTILE} 1"}, {"key": HOSTILE}]),
        "dead_letters": ([], [{}]),
        "workers": ([], [{}]),
        "storage": ([], [{}]),
        "storage_acknowledge": ([rows[Namespace].pk], [{}]),
        "keys_apikey_rotate": ([rows[ApiKey].pk], [{}]),
        "keys_apikey_tester": ([], [{}]),
        "keys_auditevent_changelist": ([], [{}, {"action": HOSTILE}, {"after": HOSTILE}]),
        "keys_auditevent_export": ([], [{"form": "csv"}, {"form": "ndjson"}]),
        "keys_humansession_end": ([rows[HumanSession].pk], [{}]),
        "keys_issuedgrant_revoke": ([rows[IssuedGrant].pk], [{}]),
        "keys_operator_act": ([rows[Operator].pk, "stop"], [{}]),
        "triggers_trigger_act": ([rows[Trigger].pk, "pause"], [{}]),
        **{f"triggers_trigger_{page}": ([rows[Trigger].pk], [{}]) for page in ("edit", "rebase", "replay")},
        "triggers_trigger_try": ([rows[Trigger].pk], [{}, {"from": "recent"}]),
        "triggers_trigger_why": ([rows[Trigger].pk], [{}, {"change": "1"}]),
        "triggers_replay_cancel": ([rows[Trigger].pk, 1], [{}]),
        "triggers_triggerquarantine_act": ([rows[TriggerQuarantine].pk, "retry"], [{}]),
        "triggers_triggerquarantine_changelist": ([], [{}, {"all": 1}]),
        "workloads_bulkorder_choose": ([], [{}]),
        "workloads_bulkorder_export": ([rows[BulkOrder].bulk_id], [{"form": "csv"}, {"form": "ndjson"}]),
        **{f"workloads_bulkorder_{act}": ([rows[BulkOrder].bulk_id], [{}]) for act in ("start", "stop", "discard")},
        "workloads_registeredworker_act": ([rows[RegisteredWorker].pk, "drain"], [{}]),
        "workloads_schedule_act": ([rows[Schedule].pk, "pause"], [{}]),
        **{
            f"workloads_workload_{act}": ([dead.workload_id], [{}])
            for act in ("again", "approve", "cancel", "reject", "retry")
        },
    }
    return Samples(rows=rows, own=own)


def text_of(answer: Any) -> str:
    return (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()


def test_every_page_answers_strictly_with_few_queries_and_shows_hostile_text_harmlessly(
    console: Client, samples: Samples
) -> None:
    wrong: list[Any] = []
    for name, addresses in samples.addresses().items():
        for address in addresses:
            with CaptureQueriesContext(connection) as asked:
                answer = console.get(address)
                text = text_of(answer)
            if len(asked) > MAX_QUERIES:
                wrong.append((address, len(asked), [query["sql"] for query in asked]))
            if answer.status_code not in expected(name, address):
                wrong.append((address, answer.status_code))
            if answer.status_code == 302 or not answer["Content-Type"].startswith("text/html"):
                continue
            check_is_strict(answer)
            shown = re.sub(r' (?:value|href|hx-get)="[^"]*"', "", text)  # never shown, must be exact
            for bad in ("<b>", "\u202e", "\u200f", "9007199254740992", "1.8446744073709552e"):
                if bad in shown:
                    wrong.append((address, bad, shown[max(0, shown.index(bad) - 80) :][:160]))
    assert not wrong, wrong


def test_hostile_values_are_given_out_exactly(console: Client, samples: Samples, namespace: str) -> None:
    """Whole values byte for byte as they are stored; the audit's exports with every character and digit."""
    stored = stores.store(namespace).get(f"c:{HOSTILE}")
    assert stored is not None and stored.value[LONG_NAME] == {"exact": 9007199254740993}
    address = samples.addresses()["record_value"][0]
    answer = console.get(address)
    assert answer.content == orjson.dumps(stored.value) and len(answer.content) > 1_000_000
    assert "attachment" in answer["Content-Disposition"] and answer["X-Content-Type-Options"] == "nosniff"
    AuditEvent.objects.create(
        at_ms=1, action="t.hostile", outcome="done", subject=HOSTILE, target=HOSTILE, reason=LONG_NAME, code="=1+1"
    )
    export = "/admin/keys/auditevent/export/?action=t.hostile&form="
    (line,) = text_of(console.get(f"{export}ndjson")).splitlines()
    event = json.loads(line)
    assert (event["target"], event["reason"], event["code"]) == (HOSTILE, LONG_NAME, "=1+1")
    (row,) = csv.DictReader(io.StringIO(text_of(console.get(f"{export}csv"))))
    assert (row["target"], row["reason"], row["code"]) == (HOSTILE, LONG_NAME, "'=1+1")


def expected(name: str, address: str) -> tuple[int, ...]:
    """Return how a page may answer whoever opens it."""
    if name in ACTIONS_ONLY or name == "login":
        return (302,)
    if name.endswith(("_add", "_delete")):
        return (200, 403)
    if name in ("search", "workloads_workload_history", "workloads_bulkorder_history"):
        return (200, 302)
    return (422,) if "after=%3C" in address else (200,)


def test_a_viewer_sees_every_page_and_is_offered_nothing(console: Client, samples: Samples) -> None:
    ensure_roles()
    from django.contrib.auth.models import Group

    vera = Operator.objects.create_user("vera", password="correct horse battery", is_staff=True)
    vera.groups.add(Group.objects.get(name=Role.VIEWER.value))
    viewer = Client()
    viewer.force_login(vera)
    session = viewer.session
    session["console_namespace"] = console.session["console_namespace"]
    session.save()
    for_administrators = ("_add", "_delete", "_rotate", "_tester", "_edit", "_rebase", "_replay", "keys_operator")
    for name, addresses in samples.addresses().items():
        for address in addresses:
            with CaptureQueriesContext(connection) as asked:
                answer = viewer.get(address)
                text = text_of(answer)  # to its end: an export that is left open keeps others out
            assert len(asked) <= MAX_QUERIES, address + "\n" + "\n".join(query["sql"] for query in asked)
            if name in ACTIONS_ONLY or any(part in name for part in for_administrators):
                assert answer.status_code in (302, 403), (name, answer.status_code)
                continue
            if answer.status_code == 302 or not answer["Content-Type"].startswith("text/html") or "password" in name:
                continue
            offered = re.findall(r'<form[^>]*method="post"[^>]*>(.*?)</form>', text, re.DOTALL)
            acts = [form for form in offered if "<button" in form and "Sign out" not in form]
            assert not acts or name == "login", (address, acts)
