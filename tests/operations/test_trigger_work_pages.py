"""Pages beside a trigger's own: dry run, why it did not fire, rebase, replay, quarantine."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.keys.principal import operator
from apps.state.stores import store
from apps.triggers import services
from apps.triggers.models import Trigger, TriggerQuarantine, TriggerReplay
from apps.workloads.clock import now_ms
from apps.workloads.models import Workload
from feltdb_engine.model import Mutation
from feltdb_engine.policy import Retention
from tests.operations.test_pages import check_is_strict
from tests.operations.test_trigger_pages import ADD, wanted

pytestmark = pytest.mark.usefixtures("data_dir")


@pytest.fixture
def put(namespace: str, data_dir: Path) -> Callable[..., None]:
    """A function that writes an order: `put("1", status="paid")`."""

    def write(order: str, **value: Any) -> None:
        store(namespace).commit([Mutation(kind="put", collection="orders", id=order, value=value)])

    return write


@pytest.fixture
def trigger(namespace: str, data_dir: Path) -> Trigger:
    document = {
        "trigger_id": "order-paid",
        "source_collection": "orders",
        "change_kind": ["insert", "update"],
        "predicate": {"all": [{"field": "status", "equals": "paid"}, {"field": "total", "op": "gt", "value": 5}]},
        "target_capability": "identity",
        "start_from": "beginning",
    }
    return services.define(namespace, document, by=operator("admin"), now_ms=now_ms()).trigger


def page(trigger: Trigger, what: str) -> str:
    return f"/admin/triggers/trigger/{trigger.pk}/{what}/"


def text_of(answer: Any) -> str:
    check_is_strict(answer)
    return " ".join(answer.content.decode().split())


def test_a_definition_is_tried_from_its_form_and_nothing_is_stored(console: Client, put: Any) -> None:
    put("1", status="paid")
    put("2", status="new")
    answer = console.post(ADD, wanted(**{"try": "recent"}))
    assert answer.status_code == 200
    assert "1 of 2 changes</strong> of the collection would have become work" in text_of(answer)
    assert "orders:1" in text_of(answer) and 'value="order-paid"' in text_of(answer), (
        "the form stays as it was filled in"
    )
    assert not Trigger.objects.exists() and not Workload.objects.exists()
    wrong = console.post(ADD, wanted(**{"try": "recent", "predicate": '{"field": "a", "is": 1}'}))
    assert wrong.status_code == 400 and "Nothing was stored" in text_of(wrong)


def test_a_change_of_a_definition_is_tried_beside_what_is_stored(console: Client, trigger: Trigger, put: Any) -> None:
    put("1", status="paid", total=9)
    put("2", status="paid", total=1)
    form = wanted(seen=trigger.revision, predicate='{"field": "status", "equals": "paid"}', **{"try": "recent"})
    text = text_of(console.post(page(trigger, "edit"), form))
    assert "The definition that is stored matches 1. The change would add 1 and take away 0." in text
    assert Trigger.objects.get().revision == trigger.revision


def test_the_stored_definition_is_run_dry_from_a_place_of_the_feed(console: Client, trigger: Trigger, put: Any) -> None:
    for number in range(3):
        put(str(number), status="paid", total=9)
    assert "Run it dry" in text_of(console.get(page(trigger, "try")))
    text = text_of(console.get(page(trigger, "try"), {"from": "recent"}))
    assert "3 of 3 changes</strong>" in text
    head = store(trigger.namespace).head()
    text = text_of(console.get(page(trigger, "try"), {"from": "cursor", "cursor": f"{head.instance_id}-{1}"}))
    assert "2 of 2 changes</strong>" in text
    assert 'value="cursor" selected' in text and f'value="{head.instance_id}-{1}"' in text, "the choice is still there"
    wrong = console.get(page(trigger, "try"), {"from": "cursor", "cursor": "<b>nowhere"})
    assert wrong.status_code == 400 and "<b>" not in text_of(wrong)


def test_a_dry_run_that_takes_too_long_for_a_page_goes_on_where_it_stopped(
    console: Client, trigger: Trigger, put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.triggers import limits
    from apps.triggers.admin import pages
    from apps.triggers.admin import trigger as form_page

    for number in range(3):
        put(str(number), status="paid", total=9)
    for module in (pages, form_page):
        monkeypatch.setattr(module, "DRY_RUN_PAGE_S", 0.0)
    monkeypatch.setattr(limits, "DRY_RUN_SLICE", 1)
    address, told = page(trigger, "try") + "?from=recent", []
    for _ in range(5):
        text = text_of(console.get(address))
        told.append("1 of 1 change</strong>" in text)
        onward = re.search(r'href="(\?from=cursor[^"]*)">Go on from there', text)
        if onward is None:
            break
        assert "there is more" in text
        address = page(trigger, "try") + onward[1].replace("&amp;", "&")
    assert told == [True, True, True]
    form, places = wanted(seen=trigger.revision, **{"try": "recent"}), []
    for _ in range(5):
        onward = re.search(r'name="try" value="([^"]*)">Go on', text_of(console.post(page(trigger, "edit"), form)))
        if onward is None:
            break
        places.append(onward[1])
        form["try"] = onward[1]
    assert len(places) == 2 and Trigger.objects.get().revision == trigger.revision


def test_why_it_did_not_fire_shows_each_clause_with_its_value(console: Client, trigger: Trigger, put: Any) -> None:
    put("1", status="paid", total=2)
    put("2", total=2)
    text = text_of(console.get(page(trigger, "why")))
    links = re.findall(r'href="(\?change=[^"]+)"', text)
    assert len(links) == 2
    text = text_of(console.get(page(trigger, "why") + links[1]))
    assert "It made no work" in text and "the predicate does not hold" in text
    assert "&quot;value&quot;:5" in text and ">2<" in text.replace(" ", "") and "all of" in text
    assert ">no</span>" in text and ">yes</span>" in text and "not fire?</h1>" in text
    assert "nothing is there" in text_of(console.get(page(trigger, "why") + links[0]))
    services.evaluate_namespace(trigger.namespace, now_ms=now_ms())
    put("3", status="paid", total=7)
    services.evaluate_namespace(trigger.namespace, now_ms=now_ms())
    text = text_of(console.get(page(trigger, "why") + "?change=3"))
    assert "Why did " in text and "not fire?" not in text.partition("<main")[2].partition("</h1>")[0]
    assert "It fired" in text and Workload.objects.get().workload_id in text
    for change, status in (("99", 404), ("x", 400), ("<script>", 400)):
        answer = console.get(page(trigger, "why"), {"change": change})
        assert answer.status_code == status and "<script>" not in text_of(answer).replace("<script src", "")


def test_a_trigger_whose_history_is_gone_is_rebased_and_told_what_is_lost(
    console: Client, trigger: Trigger, put: Any
) -> None:
    for number in range(4):
        put(str(number), status="paid", total=9)
    store(trigger.namespace).compact(Retention(age_ms=0, ids_age_ms=0))
    services.evaluate_namespace(trigger.namespace, now_ms=now_ms())
    blocked = Trigger.objects.get()
    assert (blocked.state, blocked.reason_code) == ("blocked", "FEED_COMPACTED")
    assert page(trigger, "rebase") in text_of(console.get(page(trigger, "change")))
    text = text_of(console.get(page(trigger, "rebase")))
    assert "4 operations after its place are not kept any more" in text
    stale = console.post(page(trigger, "rebase"), {"seen": blocked.revision - 1, "to": "now"})
    assert stale.status_code == 409 and "has changed since the page was shown" in text_of(stale)
    wrong = console.post(page(trigger, "rebase"), {"seen": blocked.revision, "to": "cursor", "cursor": "nowhere"})
    assert wrong.status_code == 400 and Trigger.objects.get().state == "blocked"
    form = {"seen": blocked.revision, "to": "beginning", "reason": "looked"}
    done = console.post(page(trigger, "rebase"), form, follow=True)
    assert "goes on from where you put it" in text_of(done)
    after = Trigger.objects.get()
    assert after.state == "active" and after.revisions.order_by("-revision")[0].reason == "looked"
    put("5", status="paid", total=9)
    services.evaluate_namespace(trigger.namespace, now_ms=now_ms())
    assert Workload.objects.count() == 1
    again = console.post(page(trigger, "rebase"), form)
    assert again.status_code == 409, "the second press finds it changed"


def test_a_replay_is_ordered_once_watched_and_ended(console: Client, trigger: Trigger, put: Any) -> None:
    put("1", status="paid", total=9)
    services.evaluate_namespace(trigger.namespace, now_ms=now_ms())
    text = text_of(console.get(page(trigger, "replay")))
    assert "makes <strong>new</strong> work" in text
    form = {"seen": "0", "from": "beginning", "to": "now", "reason": "twice"}
    assert "Replay 1 is ordered" in text_of(console.post(page(trigger, "replay"), form, follow=True))
    twice = console.post(page(trigger, "replay"), form)
    assert twice.status_code == 409 and TriggerReplay.objects.count() == 1
    text = text_of(console.get(page(trigger, "change")))
    assert "0 of 1" in text and "End replay 1" in text and 'class="bar"' in text
    services.evaluate_namespace(trigger.namespace, now_ms=now_ms())
    assert Workload.objects.count() == 2
    late = console.post(f"/admin/triggers/trigger/{trigger.pk}/replay/1/cancel/")
    assert late.status_code == 409 and "has ended already" in text_of(late)
    empty = console.post(page(trigger, "replay"), {**form, "seen": "1", "from": "now"})
    assert empty.status_code == 400 and "ends after it starts" in text_of(empty)


def quarantined(trigger: Trigger, sequence: int) -> TriggerQuarantine:
    opened = store(trigger.namespace)
    operation = opened.changes(opened.start(), limit=100).operations[sequence - 1]
    return TriggerQuarantine.objects.create(
        trigger=trigger,
        namespace=trigger.namespace,
        instance_id=operation.instance_id,
        sequence=sequence,
        record_key=operation.key,
        change_kind=operation.kind,
        content_hash=operation.content_hash,
        trigger_revision=trigger.revision,
        code="WORKLOAD_INVALID",
        message="<b>too large</b>",
        at_ms=now_ms(),
    )


def test_what_stands_in_quarantine_is_retried_or_given_up_once_and_the_second_press_is_explained(
    console: Client, trigger: Trigger, put: Any
) -> None:
    put("1", status="paid", total=9)
    put("2", status="paid", total=9)
    services.evaluate_namespace(trigger.namespace, now_ms=now_ms())
    Workload.objects.all().delete()
    one, two = (quarantined(trigger, sequence) for sequence in (1, 2))
    listed = "/admin/triggers/triggerquarantine/"
    text = text_of(console.get(listed))
    assert "orders:1" in text and "&lt;b&gt;too large" in text
    where = f"{listed}{one.pk}/do"
    assert "The change is work now" in text_of(console.post(f"{where}/retry/", {"reason": "fixed"}, follow=True))
    assert Workload.objects.count() == 1
    for action in ("retry", "skip"):
        again = console.post(f"{where}/{action}/")
        assert again.status_code == 409 and "It was seen to meanwhile" in text_of(again)
    where = f"{listed}{two.pk}/do"
    assert "makes no work" in text_of(console.post(f"{where}/skip/", {"reason": "not due"}, follow=True))
    assert "Nothing stands aside" in text_of(console.get(listed))
    text = text_of(console.get(f"{listed}?all=1"))
    assert "human:admin: not due" in text and "retried" in text
    assert Workload.objects.count() == 1
    assert console.post(f"{where}/explode/").status_code == 404
    assert console.get(f"{listed}99999999999999999999/change/").status_code == 404


def test_a_trigger_is_defined_where_all_history_was_let_go(console: Client, put: Any, namespace: str) -> None:
    put("1", status="paid")
    store(namespace).compact(Retention(age_ms=0, ids_age_ms=0))
    assert "order-paid is defined" in text_of(console.post(ADD, wanted(), follow=True))
    put("2", status="paid")
    services.evaluate_namespace(namespace, now_ms=now_ms())
    assert Workload.objects.count() == 1
