"""Compaction by command and by policy: what goes, what holds it, how it is noted, and that triggers lose nothing."""

import json
import threading
from collections import defaultdict
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from prometheus_client.parser import text_string_to_metric_families

from apps.keys.audit.models import AuditEvent
from apps.keys.principal import operator
from apps.operations.models import UpkeepRun
from apps.operations.services import compacting, health, keeping, upkeep
from apps.state import stores
from apps.triggers import services as triggers
from apps.triggers.models import NamespacePosition, Trigger, TriggerCursor
from apps.workloads.clock import now_ms
from feltdb_engine import Mutation, Store
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


def test_a_tick_is_no_rewrite(data_dir: Path, namespace: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """F4 of the reference's list: what is written is decided by the policy, not by the timer."""
    write(namespace, 10)
    opened, true = stores.store(namespace), type(stores.store(namespace)).compact
    calls: list[bool] = []

    def counted(self: Any, *arguments: Any, **members: Any) -> Any:
        calls.append(bool(members.get("dry_run")))
        return true(self, *arguments, **members)

    monkeypatch.setattr(type(opened), "compact", counted)
    clock = [0.0]
    automatic = compacting.Automatic(60.0, clock=lambda: clock[0])
    for tick in range(30):
        clock[0] = tick * 10.0
        automatic.run(threading.Event())
    assert calls == [True] * 5, "looked at once a minute, and nothing was written: nothing is due"
    monkeypatch.setattr(compacting, "now_ms", lambda: now_ms() + 31 * DAY_MS)
    for tick in range(30, 60):
        clock[0] = tick * 10.0
        automatic.run(threading.Event())
    assert calls.count(False) == 1, "once it was due, and not again"


def test_what_went_is_counted_and_logged_at_debug(
    data_dir: Path, namespace: str, api: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5 of the reference's list; that it runs in a thread of its own is the worker's for every step."""
    write(namespace, 10)
    before = counted(api())
    with caplog.at_level("DEBUG", logger="feltdb.operations"):
        compacting.compact(namespace, by=BY, keep=compacting.forgetting_all(compacting.policy()))
    told = [each for each in caplog.records if each.message == "store compacted"]
    assert [(each.levelname, each.operations) for each in told] == [("DEBUG", 10)]  # type: ignore[attr-defined]
    after = counted(api())
    assert after["feltdb_operations_compacted_total"] - before["feltdb_operations_compacted_total"] == 10
    assert after["feltdb_compacted_bytes_total"] > before["feltdb_compacted_bytes_total"]
    assert after["done"] - before["done"] == 1

    def full(*_: Any, **__: Any) -> Any:
        raise StorageFull("There is no room on the disk.")

    monkeypatch.setattr(type(stores.store(namespace)), "compact", full)
    with pytest.raises(StorageFull):
        compacting.compact(namespace, by=BY)
    assert [each.levelname for each in caplog.records if each.message == "compaction failed"] == ["WARNING"]
    assert counted(api())["failed"] - after["failed"] == 1


def counted(client: Any) -> dict[str, float]:
    """The counts of compactions as they are scraped."""
    found: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(client.get("/metrics").content.decode()):
        for sample in family.samples:
            if sample.labels.get("namespace") == "test":
                found[sample.name] += sample.value
            if sample.name == "feltdb_compactions_total":
                found[sample.labels["outcome"]] += sample.value
    return found


def test_a_trigger_beyond_its_max_lag_is_seen_before_and_named_when_it_is_passed(
    data_dir: Path, namespace: str, request: pytest.FixtureRequest
) -> None:
    Store.open(stores.directory(namespace), segment_bytes=1 << 16).close()  # history goes in whole segments
    trigger: Trigger = request.getfixturevalue("trigger")
    opened = stores.store(namespace)
    for number in range(150):
        opened.commit([Mutation(kind="put", collection="orders", id="1", value={"n": number, "text": "x" * 2000})])
    assert codes() == []
    Trigger.objects.filter(pk=trigger.pk).update(max_lag_operations=10)
    assert codes() == ["TRIGGER_BEYOND_MAX_LAG"]
    done = compacting.compact(namespace, by=BY, keep=compacting.forgetting_all(compacting.policy()))
    assert 0 < done.floor <= 140 and done.bytes_removed >= 1 << 16, "what it may lag stays, whatever the policy says"
    row = AuditEvent.objects.get(action="storage.compacted_past_trigger")
    assert (row.target, row.code, row.namespace) == ("on-orders", "FEED_COMPACTED", namespace)
    triggers.evaluate_namespace(namespace, now_ms=now_ms())
    trigger.refresh_from_db()
    assert (trigger.state, trigger.reason_code) == ("blocked", "FEED_COMPACTED"), "it stops; nothing is passed over"
    compacting.compact(namespace, by=BY, keep=compacting.forgetting_all(compacting.policy()))
    assert AuditEvent.objects.filter(action="storage.compacted_past_trigger").count() == 1, "told once"


def test_the_newest_so_many_stay_whatever_their_age(data_dir: Path, namespace: str, settings: Any) -> None:
    write(namespace, 10)
    settings.HISTORY_DAYS, settings.HISTORY_OPERATIONS = 1, 4
    late = now_ms() + 2 * DAY_MS
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compacting, "now_ms", lambda: late)
        assert compacting.preview(namespace).held_by == "retain_from"
        settings.HISTORY_OPERATIONS = 0
        assert compacting.preview(namespace).floor == 10


def codes() -> list[str]:
    return [each.code for each in keeping.reasons()]


def test_a_pin_that_holds_what_the_policy_lets_go_is_named_by_the_doctor(
    data_dir: Path, namespace: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(namespace, 10)
    opened = stores.store(namespace)
    opened.pin("billing", 0, None)
    assert "HISTORY_HELD" not in codes(), "it holds nothing that is to go"
    monkeypatch.setattr(compacting, "now_ms", lambda: now_ms() + 31 * DAY_MS)
    held = [each for each in keeping.reasons() if each.code == "HISTORY_HELD"]
    assert held and "pin billing" in held[0].message
    assert "oldest pin billing at 0" in next(keeping.kept()).line()


def test_the_doctor_says_how_old_the_last_backup_is_and_that_one_failed(data_dir: Path, namespace: str) -> None:
    assert "none yet" in keeping.last_backup() and codes() == []
    with pytest.raises(RuntimeError), upkeep.noted(UpkeepRun.Kind.BACKUP, upkeep.INSTANCE, by=BY):
        raise RuntimeError("no room")
    assert codes() == ["BACKUP_FAILED"]
    with upkeep.noted(UpkeepRun.Kind.BACKUP, upkeep.INSTANCE, by=BY) as running:
        running.report = {"path": "/backups/one"}
    assert codes() == [] and keeping.last_backup().endswith("/backups/one")
    (data_dir / "restore-unfinished").write_text("/backups/one")
    assert codes() == ["RESTORE_UNFINISHED"]


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


def told(client: Any) -> tuple[int, set[str], set[str]]:
    """The status of readiness, the reasons it gives, and those that are scraped."""
    health.forget()
    ready, text = client.get("/health/ready"), client.get("/metrics").content.decode()
    scraped = {
        sample.labels["code"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "feltdb_reasons" and sample.value > 0
    }
    return ready.status_code, {each["code"] for each in ready.json()["reasons"]}, scraped


def test_readiness_and_metrics_tell_of_held_history_backups_and_restores(
    data_dir: Path, namespace: str, trigger: Trigger, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, four = api(), {"HISTORY_HELD", "BACKUP_FAILED", "RESTORE_UNFINISHED", "TRIGGER_BEYOND_MAX_LAG"}
    write(namespace, 20)
    status, reasons, scraped = told(client)
    assert status == 200 and not (reasons | scraped) & four
    Trigger.objects.filter(pk=trigger.pk).update(max_lag_operations=10)
    stores.store(namespace).pin("billing", 0, None)
    monkeypatch.setattr(compacting, "now_ms", lambda: now_ms() + 31 * DAY_MS)
    with pytest.raises(RuntimeError), upkeep.noted(UpkeepRun.Kind.BACKUP, upkeep.INSTANCE, by=BY):
        raise RuntimeError("no room")
    status, reasons, scraped = told(client)
    assert status == 200 and reasons & four == scraped & four == four - {"RESTORE_UNFINISHED"}
    (data_dir / "restore-unfinished").write_text("")
    status, reasons, scraped = told(client)
    assert status == 503 and reasons & four == scraped & four == four, "a mark that says nothing is a mark"
