"""Compaction by command and by policy: what goes, what holds it, how it is noted, and that triggers lose nothing."""

import json
import threading
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.keys.audit.models import AuditEvent
from apps.keys.principal import operator
from apps.operations.models import UpkeepRun
from apps.operations.services import compacting, health, upkeep
from apps.state import stores
from apps.triggers import services as triggers
from apps.triggers.models import NamespacePosition, Trigger, TriggerCursor
from apps.workloads.clock import now_ms
from feltdb_engine import Mutation
from feltdb_engine.errors import StorageFull

pytestmark = pytest.mark.django_db

DAY_MS = 86_400_000
BY = operator("tests")


def write(namespace: str, count: int, *, collection: str = "orders") -> None:
    opened = stores.store(namespace)
    for number in range(count):
        opened.commit([Mutation(kind="put", collection=collection, id=f"{number % 7}", value={"n": number})])


def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    printed, said = StringIO(), StringIO()
    try:
        call_command("compact", "--json", *arguments, stdout=printed, stderr=said)
    except SystemExit as ended:
        return int(str(ended.code)), json.loads(printed.getvalue() or "{}"), said.getvalue()
    return 0, json.loads(printed.getvalue()), said.getvalue()


def floor(namespace: str) -> int:
    return stores.store(namespace).health().floor


@pytest.fixture
def trigger(namespace: str, data_dir: Path) -> Trigger:
    """A trigger that has seen nothing yet."""
    document = {
        "trigger_id": "on-orders",
        "source_collection": "orders",
        "change_kind": ["insert", "update"],
        "target_capability": "identity",
        "tenant_id": namespace,
        "application_id": "app",
        "requested_by": {"kind": "agent", "id": "trigger-agent"},
        "start_from": "beginning",
        "max_lag_operations": 1_000,
    }
    triggers.define(namespace, document, by=BY, now_ms=now_ms())
    return Trigger.objects.get(namespace=namespace, trigger_id="on-orders")


def test_the_command_lets_history_go_notes_the_run_and_keeps_the_records(data_dir: Path, namespace: str) -> None:
    write(namespace, 20)
    code, document, _ = run("--dry-run", "--all-history")
    assert code == 0 and document["namespaces"][0]["floor"] > 0 and floor(namespace) == 0
    assert not UpkeepRun.objects.exists(), "looking is no run"
    code, document, _ = run("--all-history", "--namespace", namespace)
    done = document["namespaces"][0]
    assert (code, done["floor_before"], done["floor"]) == (0, 0, floor(namespace)) and done["floor"] == 20
    assert stores.store(namespace).get("orders:3").value == {"n": 17}
    row = UpkeepRun.objects.get()
    assert (row.kind, row.subject, row.outcome, row.actor) == ("compaction", namespace, "done", "human:command-line")
    assert json.loads(row.report)["floor"] == 20 and row.ended_at_ms >= row.started_at_ms
    assert AuditEvent.objects.filter(action="storage.compacted", namespace=namespace).count() == 1


def test_by_the_default_policy_a_young_history_stays(data_dir: Path, namespace: str) -> None:
    write(namespace, 5)
    assert run()[0] == 0
    assert floor(namespace) == 0


def test_what_a_trigger_has_yet_to_see_stays_up_to_its_max_lag(trigger: Trigger, namespace: str) -> None:
    write(namespace, 30)
    _, document, _ = run("--all-history")
    assert floor(namespace) == 0 and document["namespaces"][0]["held_by"] == "retain_from"
    TriggerCursor.objects.filter(trigger=trigger).update(sequence=12)
    run("--all-history")
    assert floor(namespace) <= 12
    Trigger.objects.filter(pk=trigger.pk).update(max_lag_operations=10)
    run("--all-history")
    assert floor(namespace) <= 20, "it lags farther behind than it may: what it holds ends there"
    told = StringIO()
    call_command("compact", "--all-history", stdout=told)
    assert "triggers that have yet to see it" in told.getvalue()


def test_a_trigger_misses_nothing_beside_compactions(trigger: Trigger, namespace: str) -> None:
    for _ in range(4):
        write(namespace, 5)
        run("--all-history")
        triggers.evaluate_namespace(namespace, now_ms=now_ms())
        run("--all-history")
    from apps.workloads.models import Workload

    assert Workload.objects.filter(namespace=namespace).count() == 20
    assert floor(namespace) > 0, "seen by everyone, it went"


def test_where_store_and_database_are_apart_nothing_goes(trigger: Trigger, namespace: str) -> None:
    write(namespace, 5)
    triggers.evaluate_namespace(namespace, now_ms=now_ms())
    NamespacePosition.objects.filter(pk=namespace).update(mismatch_code="CONTROL_PLANE_MISMATCH", mismatch="apart")
    code, document, said = run("--all-history")
    assert code == 1 and "reconcile" in document["namespaces"][0]["refused"] and "reconcile" in said
    assert floor(namespace) == 0
    assert UpkeepRun.objects.get().outcome == "failed"


def test_an_unknown_namespace_is_refused_by_name(data_dir: Path, namespace: str) -> None:
    code, _, said = run("--namespace", "nowhere")
    assert code == 1 and "nowhere" in said and namespace in said


def test_the_worker_compacts_when_something_is_due_and_not_before_its_time(
    data_dir: Path, namespace: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, clock = now_ms(), [0.0]
    write(namespace, 10)
    automatic = compacting.Automatic(60.0, clock=lambda: clock[0])
    automatic.run(threading.Event())
    assert floor(namespace) == 0 and not UpkeepRun.objects.exists(), "nothing is old enough: not even a run"
    monkeypatch.setattr(compacting, "now_ms", lambda: now + 31 * DAY_MS)
    automatic.run(threading.Event())
    assert floor(namespace) == 0, "not its time yet"
    clock[0] = 60.0
    automatic.run(threading.Event())
    assert floor(namespace) == 10
    assert UpkeepRun.objects.get().actor == "human:compaction policy"
    settings.HISTORY_DAYS = 0
    write(namespace, 3)
    clock[0] = 120.0
    automatic.run(threading.Event())
    assert floor(namespace) == 10, "0 days keep all"


def test_a_compaction_that_fails_is_seen_and_one_that_succeeds_heals_it(
    data_dir: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(namespace, 10)
    opened = stores.store(namespace)

    def full(*_: Any, **__: Any) -> Any:
        raise StorageFull("There is no room on the disk.")

    with monkeypatch.context() as broken:
        broken.setattr(type(opened), "compact", full)
        with pytest.raises(StorageFull):
            compacting.compact(namespace, by=BY)
    health.forget()
    seen = [each for each in health.observe().reasons if each.code == "COMPACTION_FAILED"]
    assert [each.subject for each in seen] == [f"namespace {namespace}"] and "no room" in seen[0].message
    compacting.compact(namespace, by=BY)
    health.forget()
    assert "COMPACTION_FAILED" not in [each.code for each in health.observe().reasons]


def test_so_many_runs_are_kept(namespace: str) -> None:
    for number in range(upkeep.KEPT + 5):
        with upkeep.noted(UpkeepRun.Kind.COMPACTION, namespace, by=BY) as running:
            running.report = {"n": number}
    assert UpkeepRun.objects.count() == upkeep.KEPT
    assert json.loads(upkeep.newest(UpkeepRun.Kind.COMPACTION)[0].report) == {"n": upkeep.KEPT + 4}


def test_an_old_backup_is_a_reason_only_where_it_is_watched(data_dir: Path, namespace: str, settings: Any) -> None:
    assert not list(upkeep.reasons([namespace]))
    settings.BACKUP_MAX_AGE_HOURS = 24
    assert [each.code for each in upkeep.reasons([namespace])] == ["BACKUP_OLD"]
    with upkeep.noted(UpkeepRun.Kind.BACKUP, upkeep.INSTANCE, by=BY):
        pass
    assert not list(upkeep.reasons([namespace]))
    UpkeepRun.objects.update(started_at_ms=0, ended_at_ms=now_ms() - 25 * 3_600_000)
    assert "25 hours old" in next(iter(upkeep.reasons([namespace]))).message
