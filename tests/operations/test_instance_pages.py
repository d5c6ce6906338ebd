"""The doctor, load and capacity in the console. Cost: about half a second each."""

import re
import threading
from typing import Any

import pytest
from django.test import Client

from apps.http import measures
from apps.keys.audit.models import AuditEvent
from apps.keys.principal import operator
from apps.operations.models import UpkeepRun
from apps.operations.reasons import PAGES, reason
from apps.operations.services import compacting, doctor, in_background, load
from apps.operations.services.overview import MAX_TRIGGERS_SHOWN
from apps.state import stores
from apps.triggers.models import Trigger
from apps.triggers.services import define
from feltdb_engine.errors import CompactionRunning
from feltdb_engine.model import Mutation


def test_the_doctor_tells_each_finding_with_its_next_step(
    console: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reason("STORAGE_FULL", "namespace <b>", "no room")
    monkeypatch.setattr(doctor, "_observed_stores", lambda: iter([found]))
    page = console.get("/admin/doctor/").content.decode()
    assert "namespace &lt;b&gt;: no room" in page and found.next_step.split(";")[0] in page and "STORAGE_FULL" in page
    assert "manage.py doctor --verify" in page


@pytest.mark.parametrize("code", sorted(PAGES))
def test_a_finding_leads_to_the_page_that_shows_more(
    code: str, console: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_observed_stores", lambda: iter([reason(code, "here", "something")]))
    page = console.get("/admin/doctor/").content.decode()
    label = PAGES[code].label
    (address,) = set(re.findall(rf'<p>[^<]+ <a href="([^"]+)">{label}</a></p>', page))
    assert f'<a href="{address}">{label}</a></li>' in page, "and the navigation calls it the same"


def test_the_overview_leads_to_each_trigger_that_stands_still_however_many_there_are(
    console: Client, namespace: str, data_dir: Any
) -> None:
    document = {"source_collection": "orders", "change_kind": "insert", "target_capability": "identity"}
    for number in range(MAX_TRIGGERS_SHOWN + 1):
        last = define(
            namespace, {**document, "trigger_id": f"t-{number:03}"}, by=operator("tests"), now_ms=1_000
        ).trigger
    assert "stands still" not in console.get("/admin/").content.decode()
    Trigger.objects.filter(pk=last.pk).update(state="blocked", reason_code="FEED_COMPACTED", reason="<gone>")
    page = console.get("/admin/").content.decode()
    link = f'<a href="/admin/triggers/trigger/{last.pk}/change/">{last.trigger_id}</a>'
    assert f"The trigger {link} stands still: &lt;gone&gt;" in page


def test_load_is_what_every_process_counted(console: Client) -> None:
    before = {each.slot: each for each in load.load().processes}
    measures.SHED.labels("api").inc(3)
    measures.DEADLINES.labels("api", "late").inc(2)
    measures.REFUSALS.labels("RATE_LIMITED").inc(10**6)  # among those answered most often, whatever ran before
    here = next(each for each in load.load().processes if each.here)
    was = before.get(here.slot)
    assert here.alive
    assert here.shed["api"] - (was.shed["api"] if was else 0) == 3
    assert here.deadlines["late"] - (was.deadlines["late"] if was else 0) == 2
    page = console.get("/admin/load/").content.decode()
    assert "RATE_LIMITED" in page and "which answers this page" in page and "No worker process runs" in page


def test_capacity_says_what_is_estimated(console: Client, make_work: Any, data_dir: Any) -> None:
    make_work("a")
    page = console.get("/admin/capacity/").content.decode()
    assert "Rows, estimated" in page and ("at most 1" in page or "about" in page or "not known yet" in page)
    assert "free of" in page and "on the data directory" in page


@pytest.mark.django_db(transaction=True)
def test_compaction_is_previewed_run_in_the_background_and_told(
    console: Client, namespace: str, data_dir: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HISTORY_DAYS, settings.HISTORY_MIB = 0, 0
    monkeypatch.setattr(compacting, "policy", lambda: compacting.forgetting_all(compacting.Retention()))
    opened = stores.store(namespace)
    for number in range(20):
        opened.commit([Mutation(kind="put", collection="a", id="1", value={"n": number})], at_ms=1_000)
    opened.pin("reader", 19, None)
    page = console.get("/admin/compaction/").content.decode()
    assert "Compact now" in page and "pin reader" in page and "for ever" in page
    assert "has begun" in console.post("/admin/compaction/run/", {"reason": "room"}, follow=True).content.decode()
    in_background._running[namespace].join(30)
    run = UpkeepRun.objects.get(kind=UpkeepRun.Kind.COMPACTION)
    assert (run.outcome, run.actor) == ("done", "human:admin"), run.message
    told = console.get("/admin/compaction/").content.decode()
    assert f"{opened.start().sequence} change" in told and "let go" in told
    asked = AuditEvent.objects.get(action="storage.compaction_asked")
    assert (asked.subject, asked.reason) == ("human:admin", "room")


@pytest.mark.django_db(transaction=True)
def test_a_compaction_that_is_pressed_twice_runs_once(
    console: Client, namespace: str, data_dir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.store(namespace).commit([Mutation(kind="put", collection="a", id="1", value={})])
    entered, go_on, true = threading.Event(), threading.Event(), compacting.compact

    def slowly(*args: Any, **kwargs: Any) -> Any:
        entered.set()
        assert go_on.wait(30)
        return true(*args, **kwargs)

    monkeypatch.setattr(compacting, "compact", slowly)
    try:
        assert console.post("/admin/compaction/run/").status_code == 302
        assert entered.wait(30)
        second = console.post("/admin/compaction/run/")
        assert second.status_code == 409 and "A compaction of this store is at work" in second.content.decode()
    finally:
        go_on.set()
        in_background._running[namespace].join(30)
    assert [run.outcome for run in UpkeepRun.objects.filter(kind=UpkeepRun.Kind.COMPACTION)] == ["done"]
    assert AuditEvent.objects.filter(action="storage.compaction_asked").count() == 1


def test_a_page_that_looks_while_a_compaction_is_at_work_says_so(
    console: Client, namespace: str, data_dir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def running(*_: Any, **__: Any) -> Any:
        raise CompactionRunning("Another compaction of this store is at work.")

    monkeypatch.setattr(compacting, "preview", running)
    answer = console.get("/admin/compaction/")
    assert answer.status_code == 200 and "is at work" in answer.content.decode()


def test_a_compaction_that_cannot_be_is_refused_on_the_page(
    console: Client, namespace: str, data_dir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def apart(*_: Any, **__: Any) -> Any:
        raise compacting.CompactionRefused("The store and the database are apart.")

    monkeypatch.setattr(compacting, "preview", apart)
    answer = console.post("/admin/compaction/run/")
    assert answer.status_code == 409 and "are apart" in answer.content.decode()
    assert "Compact now" not in console.get("/admin/compaction/").content.decode()
    assert not AuditEvent.objects.filter(action="storage.compaction_asked").exists()
