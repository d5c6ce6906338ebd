"""Bulk actions at the console: what is chosen is shown first, done once, watched, and stopped."""

import csv
import io
import json
import re
import threading
from typing import Any

import pytest
from django.test import Client

from apps.http.pages import exporting
from apps.keys.models import AuditEvent
from apps.workloads import bulk, services
from apps.workloads.bulk import telling
from apps.workloads.models import BulkOrder, Workload
from apps.workloads.states import State
from tests.operations.test_pages import check_is_strict
from tests.workloads.bulk_orders import carry_out, claimed

CHOOSE = "/admin/workloads/bulkorder/choose/"


def page(order: BulkOrder, what: str = "change") -> str:
    return f"/admin/workloads/bulkorder/{order.bulk_id}/{what}/"


def chosen(console: Client, **form: Any) -> BulkOrder:
    """Choose as the lists' forms do, and return what was frozen."""
    everything = "?all=1" if form.pop("all", None) else ""
    answer = console.post(CHOOSE + everything, form, follow=True)
    assert answer.status_code == 200, answer.content.decode()
    order: BulkOrder = answer.context["order"]
    return order


def states() -> dict[str, str]:
    return dict(Workload.objects.exclude(definition_id="bulk-action").values_list("workload_id", "state"))


def test_the_chosen_are_shown_before_anything_is_done_then_done_and_told_row_by_row(
    console: Client, make_dead: Any
) -> None:
    first, second, third = (make_dead(key) for key in "abc")
    order = chosen(console, id=[first.workload_id, second.workload_id], act="retry")
    answer = console.get(page(order))
    check_is_strict(answer)
    text = answer.content.decode()
    assert "2 dead letters</strong> become ready" in text and "Retry 2 workloads" in text
    assert first.workload_id in text and third.workload_id not in text
    assert set(states().values()) == {"DEAD_LETTER"}
    services.cancel(second.namespace, second.workload_id, actor="somebody else", now_ms=first.updated_at_ms + 50)
    started = console.post(page(order, "start"), {"reason": "fixed"}, follow=True).content.decode()
    assert "Started." in started and "0 of 2</strong> handled" in started and "It waits for a worker" in started
    carry_out(BulkOrder.objects.get(pk=order.pk))
    text = console.get(page(order)).content.decode()
    assert "2 of 2</strong> handled: 1 done, 1 refused, 0 left" in text
    assert "it has changed since it was chosen: it is cancelled now" in text and 'id="live" hx-get' not in text
    refused = console.get(page(order) + "?outcome=refused").content.decode()
    assert second.workload_id in refused and first.workload_id not in refused
    assert states() == {first.workload_id: "READY", second.workload_id: "CANCELLED", third.workload_id: "DEAD_LETTER"}


def test_all_like_these_takes_the_group_and_discards_it_for_good(console: Client, make_dead: Any) -> None:
    alike = [make_dead(f"k{number}", error=f"flight UA{number} is unknown") for number in range(3)]
    other = make_dead("other", error="no connection")
    text = console.get("/admin/dead-letters/").content.decode()
    assert "Retry all like these" in text and "Discard all dead letters" in text
    form = next(each for each in text.split("<form")[1:] if alike[0].workload_id in each)
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    order = chosen(console, all=1, act="discard", **hidden)
    assert {item.workload_id for item in order.items.all()} == {work.workload_id for work in alike}
    console.post(page(order, "start"), {"reason": "not due"})
    carry_out(BulkOrder.objects.get(pk=order.pk))
    assert states() == {work.workload_id: "CANCELLED" for work in alike} | {other.workload_id: "DEAD_LETTER"}


def test_all_that_match_of_the_list_are_cancelled(console: Client, make_work: Any, make_dead: Any) -> None:
    wanted, other, dead = make_work("a", definition_id="pay"), make_work("b"), make_dead("c", definition_id="pay")
    text = console.get("/admin/workloads/workload/?definition_id=pay").content.decode()
    assert "Cancel all that match" in text and "Cancel the chosen" in text
    assert "all that match" not in console.get("/admin/workloads/workload/?state=SUCCEEDED").content.decode()
    order = chosen(console, all=1, act="cancel", definition_id="pay", state="", trigger="")
    console.post(page(order, "start"))
    carry_out(BulkOrder.objects.get(pk=order.pk))
    assert states() == {wanted.workload_id: "CANCELLED", other.workload_id: "READY", dead.workload_id: "DEAD_LETTER"}


def test_what_became_of_each_is_given_out_as_a_file_exactly_and_no_cell_is_a_formula(
    console: Client, make_dead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "EXPORT_ROWS", 2)
    dead = [make_dead(key) for key in "abcde"]
    order = chosen(console, all=1, act="retry", state="DEAD_LETTER")
    services.cancel(dead[3].namespace, dead[3].workload_id, actor="other", now_ms=dead[3].updated_at_ms + 50)
    console.post(page(order, "start"))
    carry_out(BulkOrder.objects.get(pk=order.pk))
    hostile = "=HYPERLINK(1)\n\u202e<b>\x00\x7f"[:60].replace("\x00", "\x01")
    order.items.filter(outcome="refused").update(message=hostile, at_ms=2**53 + 1)
    Workload.objects.filter(pk=dead[4].pk).update(state="CANCELLED")
    answer = console.get(page(order))
    check_is_strict(answer)
    text = answer.content.decode()
    assert "=HYPERLINK(1)" in text and not {"\u202e", "\x01", "\x7f"} & set(text) and "<b>" not in text
    assert "Fetch all rows as CSV" in text and "as NDJSON, exactly" in text
    assert "Fetch those that are refused as CSV" in console.get(page(order) + "?outcome=refused").content.decode()

    lines = [json.loads(line) for line in fetched(console, order, form="ndjson").splitlines()]
    assert [line["workload_id"] for line in lines] == [work.workload_id for work in dead]
    assert [line["position"] for line in lines] == [1, 2, 3, 4, 5]
    assert [line["outcome"] for line in lines] == ["done", "done", "done", "refused", "done"]
    assert (lines[3]["message"], lines[3]["at_ms"], lines[3]["state_now"]) == (hostile, 9007199254740993, "CANCELLED")
    assert (lines[0]["message"], lines[0]["state_when_chosen"], lines[0]["history_when_chosen"]) == (
        None,
        "DEAD_LETTER",
        dead[0].history_length,
    )
    (row,) = csv.DictReader(io.StringIO(fetched(console, order, form="csv", outcome="refused"), newline=""))
    assert (row["message"], row["at_ms"], row["position"]) == (f"'{hostile}", "9007199254740993", "4")
    told = AuditEvent.objects.filter(action="bulk.exported")
    assert [(each.subject, each.target) for each in told] == [("human:admin", order.bulk_id)] * 2
    for query in ("?form=xlsx", "?form=csv&outcome=all"):
        assert console.get(page(order, "export") + query).status_code == 404
    assert told.count() == 2


def fetched(console: Client, order: BulkOrder, **query: str) -> str:
    answer = console.get(page(order, "export"), query)
    assert "attachment" in answer["Content-Disposition"] and order.bulk_id in answer["Content-Disposition"]
    return b"".join(answer.streaming_content).decode()


def test_only_so_many_files_are_given_out_at_once_and_the_page_says_so(
    console: Client, make_dead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "places", threading.BoundedSemaphore(1))
    make_dead()
    order = chosen(console, all=1, act="retry", state="DEAD_LETTER")
    first = console.get(page(order, "export"))
    second = console.get(page(order, "export"))
    assert second.status_code == 503 and "Other exports are under way" in second.content.decode()
    assert b"".join(first.streaming_content)
    first._resource_closers.clear()


def test_nothing_chosen_is_said_and_nothing_done(console: Client, make_dead: Any) -> None:
    make_dead()
    answer = console.post(CHOOSE, {"act": "retry"})
    assert answer.status_code == 409 and "tick the work first" in answer.content.decode()
    answer = console.post(f"{CHOOSE}?all=1", {"act": "retry", "state": "READY"})
    assert answer.status_code == 422 and "cannot be part of retry" in answer.content.decode()
    assert console.post(CHOOSE, {"act": "explode", "id": "x"}).status_code == 404
    assert not BulkOrder.objects.exists()


def test_pressing_start_twice_does_it_once(console: Client, make_dead: Any) -> None:
    make_dead()
    order = chosen(console, all=1, act="retry", state="DEAD_LETTER")
    for _ in range(2):
        assert console.post(page(order, "start"), follow=True).status_code == 200
    assert Workload.objects.filter(definition_id="bulk-action").count() == 1


def test_a_bulk_action_is_stopped_on_its_page_and_once_it_has_ended_the_page_explains(
    console: Client, make_dead: Any
) -> None:
    for key in "abc":
        make_dead(key)
    order = chosen(console, all=1, act="retry", state="DEAD_LETTER")
    console.post(page(order, "start"))
    running = claimed(BulkOrder.objects.get(pk=order.pk))
    text = console.post(page(order, "stop"), follow=True).content.decode()
    assert "the rest is left alone" in text and "finishes the row it is at" in text
    services.confirm_cancel(running.claim.fence, now_ms=running.claim.claimed_at_ms + 1)
    assert "3 were left alone" in console.get(page(order)).content.decode()

    order = chosen(console, all=1, act="retry", state="DEAD_LETTER")
    console.post(page(order, "start"))
    carry_out(BulkOrder.objects.get(pk=order.pk))
    answer = console.post(page(order, "stop"))
    assert answer.status_code == 409 and "3 of 3</strong> handled" in answer.content.decode()


def test_a_draft_is_left_as_it_is_and_forgotten(console: Client, make_dead: Any) -> None:
    dead = make_dead()
    order = chosen(console, all=1, act="retry", state="DEAD_LETTER")
    assert "nothing was done" in console.post(page(order, "discard"), follow=True).content.decode()
    assert not BulkOrder.objects.exists() and Workload.objects.get(pk=dead.pk).state == State.DEAD_LETTER
    assert console.post(page(order, "start")).status_code == 404


def test_forty_pages_of_rows_ask_no_more_of_the_database(
    console: Client, make_dead: Any, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        make_dead(f"k{number}")
    order = chosen(console, all=1, act="retry", state="DEAD_LETTER")
    for when in ("draft", "started"):
        with django_assert_max_num_queries(15):
            console.get(page(order))
        if when == "draft":
            console.post(page(order, "start"))
    with django_assert_max_num_queries(15):
        assert console.get("/admin/workloads/bulkorder/").status_code == 200


@pytest.mark.parametrize("query", ["?page=x", "?page=-1", "?page=99999999999999999999", "?outcome=nothing"])
def test_an_address_that_was_written_by_hand_shows_the_page(console: Client, make_dead: Any, query: str) -> None:
    make_dead()
    order = chosen(console, all=1, act="retry", state="DEAD_LETTER")
    assert console.get(page(order) + query).status_code == 200
    assert bulk.standing(order).phase == "draft"
