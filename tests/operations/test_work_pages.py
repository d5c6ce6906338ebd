"""Pages of work at the console: the state machine drawn, the fence, workers, schedules, asking again."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

from django.test import Client

from apps.operations.models import Sample
from apps.operations.services import sampling
from apps.workloads import services
from apps.workloads.admin.work import WorkloadAdmin
from apps.workloads.clock import now_ms
from apps.workloads.commands import ClaimById, Fence
from apps.workloads.drawing import PLACES, picture
from apps.workloads.machine import TABLE
from apps.workloads.models import RefusedWord, RegisteredWorker, Schedule, Workload
from apps.workloads.services import registry, scheduling
from apps.workloads.states import State
from tests.operations.conftest import NOW_MS
from tests.operations.rows import a_refused_word, a_schedule, a_worker
from tests.operations.test_pages import check_is_strict


def text_of(console: Client, path: str) -> str:
    answer = console.get(path)
    assert answer.status_code == 200, path
    check_is_strict(answer)
    return str(answer.content.decode())


def test_the_state_machine_is_drawn_whole_with_the_path_that_was_taken(console: Client, make_dead: Any) -> None:
    dead = make_dead()
    text = text_of(console, f"/admin/workloads/workload/{dead.workload_id}/change/")
    svg = ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])  # noqa: S314 - our own page
    groups = [each.get("class", "") for each in svg.iter("g")]
    assert sum("state" in each for each in groups) == len(State) == len(PLACES)
    assert sum("arrow" in each for each in groups) == len({(row.source, row.target) for row in TABLE} - set(same()))
    assert [each for each in groups if each == "state current"] == ["state current"]
    assert sum("taken" in each for each in groups) == 5, "created, ready, claimed, running, failed, dead letter"
    assert "from failed to dead letter" in (svg.findtext("title") or "")


def same() -> list[tuple[State, State]]:
    return [(row.source, row.target) for row in TABLE if row.source == row.target]


def test_no_two_states_stand_at_one_place_and_every_arrow_begins_and_ends_at_a_box() -> None:
    assert len(set(PLACES.values())) == len(PLACES)
    drawn = picture(State.READY, [(State.CREATED, State.READY)] * 3)
    assert "from created to ready 3 times" in drawn.told
    boxes = {(box.left, box.top) for box in drawn.boxes}
    assert len(boxes) == len(State)
    for arrow in drawn.arrows:
        x, y = map(float, arrow.head.split(" ")[0].split(","))
        assert any(
            box.left - 0.1 <= x <= box.left + box.width + 0.1 and box.top - 0.1 <= y <= box.top + box.height + 0.1
            for box in drawn.boxes
        ), arrow


def test_words_of_a_stale_worker_are_counted_and_shown_and_change_nothing(console: Client, make_dead: Any) -> None:
    dead = make_dead()
    for _ in range(3):
        a_refused_word(dead)
    word = RefusedWord.objects.get()
    assert (word.word, word.code, word.token, word.current_token, word.count) == (
        "heartbeat",
        "WORKLOAD_CLAIM_INVALID",
        1,
        1,
        3,
    )
    for path in ("/admin/workloads/refusedword/", f"/admin/workloads/workload/{dead.workload_id}/change/"):
        text = text_of(console, path)
        assert "WORKLOAD_CLAIM_INVALID" in text and "w1" in text, path
    assert "nobody held a claim" in text_of(console, "/admin/workloads/refusedword/?worker_id=w1")
    assert "refused nothing" in text_of(console, "/admin/workloads/refusedword/?worker_id=w2")
    assert (
        console.get(f"/admin/workloads/refusedword/{word.pk}/change/")
        .headers["Location"]
        .endswith(f"{dead.workload_id}/change/")
    )


def test_every_word_a_worker_can_say_is_kept_when_the_fence_refuses_it(make_work: Callable[..., Workload]) -> None:
    work = make_work()
    command = {"namespace": work.namespace, "workload_id": work.workload_id, "principal": "worker:w"}
    first = services.claim(ClaimById(**command, worker_id="w", lease_ms=1_000), now_ms=NOW_MS)
    services.sweep(now_ms=NOW_MS + 1_001)
    later = Workload.objects.get(pk=work.pk).eligible_at_ms
    services.claim(ClaimById(**command, worker_id="w"), now_ms=later)
    fence, at = first.fence, {"now_ms": later + 1}
    said: list[tuple[str, Callable[[], Any]]] = [
        ("start", lambda: services.start(fence, **at)),
        ("heartbeat", lambda: services.heartbeat(fence, extend_ms=5_000, **at)),
        ("checkpoint", lambda: services.checkpoint(fence, {}, **at)),
        ("context", lambda: services.context(fence, **at)),
        ("hand_back", lambda: services.hand_back(fence, **at)),
        ("complete", lambda: services.complete(fence, services.Completion(result_id="r", output=1), **at)),
        ("fail", lambda: services.fail(fence, services.Failure(kind="k", error="e"), **at)),
        ("confirm_cancel", lambda: services.confirm_cancel(fence, **at)),
    ]
    for _, say in said:
        try:
            say()
        except services.__dict__.get("WorkloadError", Exception) as refused:
            assert getattr(refused, "code", "") == "WORKLOAD_STALE_FENCE"
        else:
            raise AssertionError("the fence let it pass")
    kept = dict(RefusedWord.objects.values_list("word", "code"))
    assert kept == {word: "WORKLOAD_STALE_FENCE" for word, _ in said}
    assert set(RefusedWord.objects.values_list("token", "current_token")) == {(1, 2)}


def test_words_without_end_make_a_bounded_number_of_rows(make_dead: Any, monkeypatch: Any) -> None:
    from apps.workloads import limits

    monkeypatch.setattr(limits, "MAX_REFUSED_WORDS", 3)
    dead = make_dead()
    for token in range(6):
        fence = Fence(
            namespace=dead.namespace,
            workload_id=dead.workload_id,
            worker_id="w",
            claim_id="c",
            fencing_token=2**80 + token if token == 5 else token,
            principal="worker:w",
        )
        try:
            services.start(fence, now_ms=NOW_MS)
        except Exception as refused:
            assert getattr(refused, "code", "") == "WORKLOAD_CLAIM_INVALID"
    assert RefusedWord.objects.count() == 3


def test_workers_are_listed_with_what_they_hold_and_drained_where_they_are_as_shown(
    console: Client, make_work: Callable[..., Workload], namespace: str
) -> None:
    assert "No worker process runs" in text_of(console, "/admin/workers/")
    worker = a_worker(namespace, now_ms())
    stranger = {"namespace": namespace, "worker_id": "stranger", "principal": "worker:stranger"}
    services.claim(ClaimById(workload_id=make_work().workload_id, **stranger), now_ms=now_ms())
    text = text_of(console, "/admin/workers/")
    assert "press-1" in text and "0 of 2" in text and "stranger" in text and "identity" in text
    path = f"/admin/workloads/registeredworker/{worker.pk}"
    text = text_of(console, f"{path}/change/")
    assert worker.incarnation_id in text and "Drain this worker" in text and "Recover this worker" not in text
    seen = {"seen": re.findall(r'name="seen" value="([^"]*)"', text)[0], "reason": "new press"}
    a_worker(namespace, now_ms())  # it comes back meanwhile, as another incarnation
    stale = console.post(f"{path}/do/drain/", seen)
    assert stale.status_code == 409 and "has changed since the page was shown" in stale.content.decode()
    seen["seen"] = re.findall(r'name="seen" value="([^"]*)"', text_of(console, f"{path}/change/"))[0]
    assert "gets no more work" in console.post(f"{path}/do/drain/", seen, follow=True).content.decode()
    assert RegisteredWorker.objects.get().lifecycle == "DRAINING"
    assert "new press" in text_of(console, f"{path}/change/"), "what was done is shown"
    assert console.post(f"{path}/do/explode/", seen).status_code == 404


def test_a_worker_that_holds_work_is_not_forgotten_and_the_page_says_why(
    console: Client, make_work: Callable[..., Workload], namespace: str
) -> None:
    worker = a_worker(namespace, now_ms())
    registry.heartbeat(
        namespace, worker.worker_id, incarnation_id=worker.incarnation_id, health="HEALTHY", now_ms=now_ms()
    )
    command = {"namespace": namespace, "worker_id": worker.worker_id, "principal": "worker:press-1"}
    work = make_work(definition_id="print")
    services.claim(
        ClaimById(workload_id=work.workload_id, capabilities=frozenset({"print"}), **command), now_ms=now_ms()
    )
    path = f"/admin/workloads/registeredworker/{worker.pk}"
    text = text_of(console, f"{path}/change/")
    assert work.workload_id in text and "1 of 2 in use" in text
    seen = {"seen": re.findall(r'name="seen" value="([^"]*)"', text)[0]}
    answer = console.post(f"{path}/do/remove/", seen)
    assert answer.status_code == 409 and RegisteredWorker.objects.exists()


def test_a_schedule_shows_its_next_times_in_two_zones_and_is_paused_and_resumed(
    console: Client, namespace: str
) -> None:
    schedule = a_schedule(namespace, now_ms())
    assert "nightly" in text_of(console, "/admin/workloads/schedule/")
    path = f"/admin/workloads/schedule/{schedule.pk}"
    text = text_of(console, f"{path}/change/")
    assert text.count("03:00:00 CE") == 5 and len(re.findall(r"0[12]:00:00 UTC", text)) >= 5
    seen = {"seen": schedule.revision, "reason": "holidays"}
    assert "lets its due times pass" in console.post(f"{path}/do/pause/", seen, follow=True).content.decode()
    assert Schedule.objects.get().state == "paused"
    twice = console.post(f"{path}/do/pause/", seen)
    assert twice.status_code == 409 and "paused now" in twice.content.decode()
    scheduling.resume(namespace, "nightly", by=_tests(), now_ms=now_ms())
    assert "Pause it" in text_of(console, f"{path}/change/")


def _tests() -> Any:
    from apps.keys.principal import operator

    return operator("tests")


def test_ended_work_is_asked_for_again_with_another_input_once_and_its_twin_is_in_the_way_of_a_retry(
    console: Client, make_dead: Any
) -> None:
    dead = make_dead(input={"n": 12345678901234567890, "x": 1.0})
    path = f"/admin/workloads/workload/{dead.workload_id}"
    text = text_of(console, f"{path}/change/")
    assert "Ask again with another input" in text and "12345678901234567890" in text
    key = re.findall(r'name="key" value="([^"]*)"', text)[0]
    wrong = console.post(f"{path}/again/", {"input": "{n: 1}", "key": key, "seen": 0})
    assert (
        wrong.status_code == 422 and "{n: 1}" in wrong.content.decode() and "Nothing was done" in wrong.content.decode()
    )
    for _ in range(2):
        answer = console.post(f"{path}/again/", {"input": '{"n": 2}', "key": key, "seen": 0}, follow=True)
        assert "this is the new work" in answer.content.decode()
    twin = Workload.objects.get(trigger=f"resubmit:{dead.workload_id}")
    assert twin.request.input == {"n": 2} and twin.request.requester_id == "admin"
    assert twin.workload_id in text_of(console, f"{path}/change/")
    retried = console.post(f"{path}/retry/", {"seen": dead.history_length})
    assert retried.status_code == 409 and twin.workload_id in retried.content.decode()
    assert Workload.objects.get(pk=dead.pk).state == State.DEAD_LETTER


def test_a_worker_that_finishes_before_the_cancel_is_explained_on_the_same_page(
    console: Client, make_work: Callable[..., Workload]
) -> None:
    work = make_work()
    command = ClaimById(namespace=work.namespace, workload_id=work.workload_id, worker_id="w1", principal="worker:w1")
    claim = services.claim(command, now_ms=NOW_MS)
    services.start(claim.fence, now_ms=NOW_MS)
    seen = {"seen": Workload.objects.get(pk=work.pk).history_length}
    services.complete(claim.fence, services.Completion(result_id="r1", output={"done": True}), now_ms=NOW_MS + 1)
    answer = console.post(f"/admin/workloads/workload/{work.workload_id}/cancel/", seen)
    text = answer.content.decode()
    assert answer.status_code == 409 and "It is succeeded now" in text and "r1" in text
    assert Workload.objects.get(pk=work.pk).state == State.SUCCEEDED


def test_each_minute_is_counted_once_and_drawn(console: Client, make_dead: Any, namespace: str) -> None:
    assert "Nothing is measured yet" in text_of(console, "/admin/")
    assert sampling.sample(now_ms=NOW_MS) == 1, "the first count only remembers where it begins"
    now = now_ms() // 60_000 * 60_000
    for key in "abc":
        make_dead(key)
    assert sampling.sample(now_ms=now) == 1
    assert sampling.sample(now_ms=now + 5_000) == 0, "another worker comes to the same minute"
    row = Sample.objects.get(minute_ms=now - 60_000)
    assert (row.succeeded, row.failed, row.died) == (0, 3, 3)
    assert not Sample.objects.filter(minute_ms__lt=now - sampling.KEPT_MS).exists()
    text = text_of(console, "/admin/")
    assert 'class="spark spark-bad"' in text and "attempts failed a minute: 3 in the last minute" in text


def test_a_minute_that_nobody_counted_parts_the_curve() -> None:
    drawn = sampling.curve("figures", {0: 1, 1: 5, 3: 2, 59: 0})
    assert len(drawn.pieces) == 3 and (drawn.shown_last, drawn.shown_most) == ("0", "5")
    for piece in drawn.pieces:
        points = [tuple(map(float, point.split(","))) for point in piece.line.split()]
        assert len(points) >= 2
        assert all(0 <= x <= drawn.width and 0 <= y <= drawn.height for x, y in points)
    flat = sampling.curve("nothing", {5: 0})
    assert flat.pieces and "nan" not in flat.pieces[0].line


def test_a_page_made_while_the_work_moves_on_tells_one_moment_of_it(
    console: Client, make_dead: Any, monkeypatch: Any
) -> None:
    dead = make_dead("moving")
    find = WorkloadAdmin._find

    def find_and_be_overtaken(self: WorkloadAdmin, workload_id: str) -> Workload:
        seen = find(self, workload_id)
        services.retry(dead.namespace, workload_id, actor="operator:faster", now_ms=NOW_MS + 99)
        return seen

    monkeypatch.setattr(WorkloadAdmin, "_find", find_and_be_overtaken)
    page = text_of(console, f"/admin/workloads/workload/{dead.workload_id}/change/")
    assert "Why it is dead" in page and "operator:faster" not in page
