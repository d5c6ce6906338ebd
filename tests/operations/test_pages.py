"""Every page of the console, as a browser without JavaScript gets it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.keys.principal import operator as principal
from apps.triggers.services import define
from apps.workloads import services
from apps.workloads.commands import ApprovalPolicy
from apps.workloads.models import Workload
from apps.workloads.states import State
from tests.operations.conftest import NOW_MS

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
PAGES = [
    "/admin/",
    "/admin/dead-letters/",
    "/admin/records/",
    "/admin/storage/",
    "/admin/search/",
    "/admin/search/?q=nothing",
    "/admin/workloads/workload/",
    "/admin/triggers/trigger/",
    "/admin/triggers/trigger/add/",
    "/admin/triggers/triggerquarantine/",
    "/admin/workloads/bulkorder/",
    "/admin/workloads/refusedword/",
    "/admin/workloads/schedule/",
    "/admin/workers/",
    "/admin/keys/apikey/",
    "/admin/keys/apikey/add/",
    "/admin/keys/namespace/",
    "/admin/keys/operator/",
    "/admin/password_change/",
]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_answers_with_a_strict_policy_and_nothing_inline(console: Client, make_key: Any, path: str) -> None:
    make_key()
    answer = console.get(path)
    assert answer.status_code == 200
    check_is_strict(answer)


def check_is_strict(answer: Any) -> None:
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert answer.headers["Cache-Control"] == "no-store"
    text = answer.content.decode()
    assert "<style" not in text and ' style="' not in text and "javascript:" not in text
    assert "<script>" not in text and " onclick=" not in text


def test_an_empty_instance_says_what_to_do_next(console: Client) -> None:
    assert "define a trigger" in console.get("/admin/").content.decode()
    assert "/v1/triggers" in console.get("/admin/triggers/trigger/").content.decode()
    assert "/v1/workloads" in console.get("/admin/workloads/workload/").content.decode()
    assert "Nothing is dead" in console.get("/admin/dead-letters/").content.decode()


def test_the_list_has_tabs_with_counts_and_filters(
    console: Client, make_work: Callable[..., Workload], make_dead: Any
) -> None:
    waiting, dead = make_work("a", trigger="state_change:t1"), make_dead("b", definition_id="pay")
    text = console.get("/admin/workloads/workload/").content.decode()
    assert waiting.workload_id in text and dead.workload_id in text

    def ids(query: str) -> set[str]:
        answer = console.get(f"/admin/workloads/workload/?{query}")
        assert answer.status_code == 200
        return {work.workload_id for work in answer.context["cl"].result_list}

    assert ids("state=DEAD_LETTER&definition_id=&q=") == {dead.workload_id}
    assert ids("definition_id=pay") == {dead.workload_id}
    assert ids("trigger=state_change:t1") == {waiting.workload_id}
    assert ids(f"q={dead.workload_id[:14]}") == {dead.workload_id}
    assert ids("q=%C3%A9") == set()
    assert ids("state=READY&definition_id=pay") == set()


def test_one_workload_shows_its_path_attempts_and_reason(console: Client, make_dead: Any) -> None:
    dead = make_dead(error="the counter is closed", input={"amount": 12345678901234567890, "part": 1.0})
    answer = console.get(f"/admin/workloads/workload/{dead.workload_id}/change/")
    text = answer.content.decode()
    assert answer.status_code == 200
    check_is_strict(answer)
    for part in (
        "Why it is dead",
        "the counter is closed",
        "12345678901234567890",
        "1.0",
        "workload.dead_lettered",
        "w1",
    ):
        assert part in text, part
    assert "Retry now" in text and "Cancel the work" in text


def test_only_what_the_state_machine_allows_is_offered(console: Client, make_work: Callable[..., Workload]) -> None:
    work = make_work()
    text = console.get(f"/admin/workloads/workload/{work.workload_id}/change/").content.decode()
    assert "Retry now" not in text and "Cancel the work" in text
    services.cancel(work.namespace, work.workload_id, actor="tests", now_ms=NOW_MS + 1)
    text = console.get(f"/admin/workloads/workload/{work.workload_id}/change/").content.decode()
    assert "Retry now" not in text and "Cancel the work" not in text


def test_a_dead_letter_is_retried_once_and_the_second_click_is_explained(console: Client, make_dead: Any) -> None:
    dead = make_dead()
    path = f"/admin/workloads/workload/{dead.workload_id}/retry/"
    form = {"seen": dead.history_length, "reason": "opened the counter"}
    answer = console.post(path, form, follow=True)
    assert answer.status_code == 200 and "Armed again" in answer.content.decode()
    again = console.post(path, form)
    assert again.status_code == 409 and "It is ready now" in again.content.decode()
    work = Workload.objects.get(pk=dead.pk)
    assert (work.state, work.operator_retry_count) == (State.READY, 1)
    event = work.events.order_by("-sequence")[0]
    assert event.actor == "human:admin" and event.evidence["reason"] == "opened the counter"


def test_work_that_waits_for_approval_is_approved_or_rejected_with_a_reason_at_the_console(
    console: Client, make_work: Callable[..., Workload]
) -> None:
    work, other = (make_work(key, approval=ApprovalPolicy()) for key in ("a", "b"))
    where = f"/admin/workloads/workload/{work.workload_id}"
    text = console.get(f"{where}/change/").content.decode()
    assert "Approve this work" in text and "Reject for good" in text and "Retry now" not in text
    form = {"seen": work.history_length, "input_hash": work.request.input_hash}
    stale = console.post(f"{where}/approve/", {**form, "input_hash": "0"})
    assert stale.status_code == 409 and "another input" in stale.content.decode()
    assert "the work is ready" in console.post(f"{where}/approve/", form, follow=True).content.decode()
    assert Workload.objects.get(pk=work.pk).state == State.READY
    where = f"/admin/workloads/workload/{other.workload_id}"
    form = {"seen": other.history_length, "input_hash": other.request.input_hash}
    assert console.post(f"{where}/reject/", form).status_code == 422
    text = console.post(f"{where}/reject/", {**form, "reason": "twice"}, follow=True).content.decode()
    assert "Rejected for good" in text and "rejected by human admin" in " ".join(text.split())
    assert Workload.objects.get(pk=other.pk).state == State.REJECTED


def test_what_the_service_refuses_is_told_on_the_same_page(console: Client, make_work: Callable[..., Workload]) -> None:
    work = make_work()
    answer = console.post(f"/admin/workloads/workload/{work.workload_id}/retry/", {"seen": work.history_length})
    assert answer.status_code == 409
    assert "rearm is not possible while the work is READY" in answer.content.decode()
    assert console.post("/admin/workloads/workload/workload_nothing/retry/", {}).status_code == 404


def test_cancelling_work_that_a_worker_holds_asks_the_worker(
    console: Client, make_work: Callable[..., Workload]
) -> None:
    work = make_work()
    claim = services.ClaimById(
        namespace=work.namespace, workload_id=work.workload_id, worker_id="w1", principal="worker:w1"
    )
    services.claim(claim, now_ms=NOW_MS)
    held = Workload.objects.get(pk=work.pk)
    answer = console.post(
        f"/admin/workloads/workload/{work.workload_id}/cancel/", {"seen": held.history_length}, follow=True
    )
    assert "Asked w1 to give the work up" in answer.content.decode()
    assert Workload.objects.get(pk=work.pk).state == State.CANCELLATION_REQUESTED


def test_dead_letters_stand_together_by_capability_and_alike_reason(console: Client, make_dead: Any) -> None:
    alike = [make_dead(f"k{number}", error=f"flight UA{number} is unknown", definition_id="pay") for number in range(7)]
    other = make_dead("other", error="no connection", definition_id="pay")
    answer = console.get("/admin/dead-letters/")
    groups = answer.context["groups"]
    assert [len(group.works) for group in groups] == [7, 1]
    assert groups[0].reason == "execution_error: flight # is unknown"
    assert alike[-1].workload_id in answer.content.decode() and alike[0].workload_id not in answer.content.decode()
    whole = console.get(f"/admin/dead-letters/?group={groups[0].key}").content.decode()
    assert alike[0].workload_id in whole and other.workload_id not in whole


def test_work_of_another_namespace_is_neither_listed_nor_retried_from_here(console: Client, make_dead: Any) -> None:
    from apps.keys.services import ensure_namespace

    dead = make_dead()
    ensure_namespace("elsewhere")
    assert "Nothing is dead" in console.get("/admin/dead-letters/?namespace=elsewhere").content.decode()
    answer = console.post("/admin/workloads/bulkorder/choose/", {"id": [dead.workload_id], "act": "retry"}, follow=True)
    assert answer.context["order"].total == 0
    assert Workload.objects.get(pk=dead.pk).state == State.DEAD_LETTER


def test_the_box_goes_straight_to_what_has_that_id(console: Client, make_dead: Any, make_key: Any) -> None:
    dead, key = make_dead(), make_key().key
    assert (
        console.get(f"/admin/search/?q={dead.workload_id}")
        .headers["Location"]
        .endswith(f"/workloads/workload/{dead.workload_id}/change/")
    )
    assert f"/keys/apikey/{key.id}/" in console.get(f"/admin/search/?q={key.id}").headers["Location"]


def test_hostile_text_is_shown_and_never_obeyed(console: Client, make_dead: Any) -> None:
    hostile = "<script>alert(1)</script>\u202e\u200b&amp;"
    dead = make_dead(error=hostile, input={hostile: hostile}, definition_id="<b>\u202epay")
    for path in (
        f"/admin/workloads/workload/{dead.workload_id}/change/",
        "/admin/workloads/workload/",
        "/admin/dead-letters/",
        "/admin/",
    ):
        text = re.sub(r' value="[^"]*"', "", console.get(path).content.decode())  # never shown, must be exact
        assert "<script>alert" not in text and "<b>" not in text and "\u202e" not in text, path
        assert "\\u202epay" in text and "&lt;b&gt;" in text, path


def test_who_is_not_signed_in_sees_the_sign_in_page_only(db: None, client: Client) -> None:
    for path in PAGES:
        answer = client.get(path)
        assert answer.status_code == 302 and "/admin/login/" in answer.headers["Location"], path
    page = client.get("/admin/login/")
    check_is_strict(page)
    assert "Sign in" in page.content.decode()


def test_no_page_asks_more_of_the_database_when_there_is_more_in_it(
    console: Client, make_work: Callable[..., Workload], make_dead: Any, make_key: Any, namespace: str
) -> None:
    for number in range(60):
        make_work(f"work-{number}", trigger=f"state_change:t{number}")
        document = {
            "trigger_id": f"t{number}",
            "source_collection": "c",
            "change_kind": "insert",
            "target_capability": "identity",
        }
        define(namespace, document, by=principal("tests"), now_ms=NOW_MS)
    for number in range(20):
        make_dead(f"dead-{number}")
        make_key()
    dead = make_dead("last")
    for path in [*PAGES, f"/admin/workloads/workload/{dead.workload_id}/change/"]:
        with CaptureQueriesContext(connection) as asked:
            console.get(path)
        assert len(asked) <= 15, (path, [query["sql"] for query in asked])


def test_a_state_in_the_head_of_a_live_page_is_replaced_with_the_live_part() -> None:
    live = [path for path in TEMPLATES.rglob("*.html") if '{% include "console/live.html" %}' in path.read_text()]
    headed = [path.read_text().partition("{% block content %}")[0] for path in live]
    with_state = [head for head in headed if "{% badge" in head]
    assert len(with_state) >= 5
    assert all('<div id="head-state">{% badge' in head for head in with_state)
    assert 'hx-select-oob="#head-state"' in (TEMPLATES / "console" / "live.html").read_text()
