"""A5 to A12 of the reference's acceptance list: permits are tried, never waited for; deadlines kept and counted."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import resolve
from rest_framework.test import APIRequestFactory

from apps.http import budget, measures
from apps.http.exceptions import exception_handler, refusal
from apps.operations.admission import NEVER_SHED, SIGN_IN, Admission, Lane, lane_of
from apps.operations.middleware import AdmissionMiddleware
from feltdb_engine.errors import DeadlineExceeded


def counted(measure: Any, **labels: str) -> float:
    """The measure's value in this process."""
    return measure.labels(**labels)._value.get()


def request(path: str = "/v1/revision", method: str = "GET") -> HttpRequest:
    return RequestFactory().generic(method, path)


def answer_of(response: Any) -> dict[str, Any]:
    return json.loads(response.content)


class Held:
    """A middleware of `permits` whose requests are held until `release` is set."""

    def __init__(self, permits: int, view: Callable[[HttpRequest], HttpResponse] | None = None) -> None:
        self.entered = threading.Semaphore(0)
        self.release = threading.Event()
        self.admission = Admission(permits=permits, console_permits=1, sign_in_permits=1, console_wait_s=0.01)
        self.middleware = AdmissionMiddleware(view or self._view, admission=self.admission)
        self.threads: list[threading.Thread] = []

    def _view(self, request: HttpRequest) -> HttpResponse:
        self.entered.release()
        self.release.wait(60)
        return HttpResponse("done")

    def send(self, path: str = "/v1/revision", method: str = "GET") -> None:
        thread = threading.Thread(target=self.middleware, args=(request(path, method),))
        thread.start()
        self.threads.append(thread)
        assert self.entered.acquire(timeout=60)

    def end(self) -> None:
        self.release.set()
        for thread in self.threads:
            thread.join(60)


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held(permits=2)
    yield made
    made.end()


def test_one_request_more_than_the_limit_is_refused_at_once_in_the_references_words(held: Held) -> None:
    held.send()
    held.send()
    shed = counted(measures.SHED, lane="api")
    started = time.monotonic()
    refused = held.middleware(request())
    assert time.monotonic() - started < 5, "it tried and did not wait"
    body = answer_of(refused)
    assert (refused.status_code, refused["Retry-After"]) == (503, "1")
    assert body["code"] == body["error"] == "SERVICE_OVERLOADED"
    assert body["message"] == "server is at its in-flight request limit"
    assert counted(measures.SHED, lane="api") == shed + 1


def test_signing_in_takes_no_permit_from_others_and_others_none_from_it(held: Held) -> None:
    held.send("/v1/auth/signin", "POST")
    shed = counted(measures.SHED, lane="sign-in")
    assert held.middleware(request("/v1/auth/signin", "POST")).status_code == 503
    assert counted(measures.SHED, lane="sign-in") == shed + 1
    held.send()
    held.send()
    assert held.middleware(request()).status_code == 503
    held.end()
    held.threads.clear()
    assert held.middleware(request("/v1/auth/signin", "POST")).status_code == 200


def test_the_paths_of_signing_in_are_the_routes_own() -> None:
    assert {resolve(path).url_name for _, path in SIGN_IN} == {"auth-signin", "login"}


def test_whoever_signs_in_to_the_console_takes_no_permit_from_whoever_is_there(held: Held) -> None:
    assert lane_of(request("/admin/login/", "POST")) is Lane.SIGN_IN
    assert lane_of(request("/admin/login/")) is lane_of(request("/admin/", "POST")) is Lane.CONSOLE


def test_overload_is_never_500_and_still_the_servers_side(held: Held) -> None:
    held.send()
    held.send()
    status = held.middleware(request()).status_code
    assert status != 500 and 500 <= status < 600


def test_a_permit_is_back_when_the_request_has_ended_also_when_the_view_fails() -> None:
    def failing(_: HttpRequest) -> HttpResponse:
        raise RuntimeError("a defect")

    held = Held(permits=1, view=failing)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            held.middleware(request())
    assert held.admission.enter(Lane.API)
    assert not held.admission.enter(Lane.API)


@pytest.mark.parametrize("path", sorted(NEVER_SHED))
def test_probes_are_never_shed(held: Held, path: str) -> None:
    held.send()
    held.send()
    held.release.set()
    assert held.middleware(request(path)).status_code == 200


def test_the_console_has_permits_of_its_own(held: Held) -> None:
    held.send()
    held.send()
    assert lane_of(request("/admin/")) is Lane.CONSOLE
    held.send("/admin/")
    assert held.middleware(request("/admin/login/")).status_code == 503, "its own are bounded too"


def test_who_waits_for_news_holds_no_permit_and_has_the_wait_on_top_of_the_deadline() -> None:
    seen: list[float] = []

    def waits(_: HttpRequest) -> HttpResponse:
        spent = budget.current()
        assert spent is not None
        before = spent.deadline
        with budget.waiting(20):
            assert held.admission.enter(Lane.API), "the permit is free for another"
            held.admission.leave(Lane.API)
            seen.append(spent.deadline - before)
        seen.append(spent.deadline - before)
        return HttpResponse()

    held = Held(permits=1, view=waits)
    assert held.middleware(request()).status_code == 200
    assert seen[0] == 20 and 0 <= seen[1] < 1, "time not waited is not kept"
    assert held.admission.enter(Lane.API), "given back once, not twice"
    with pytest.raises(ValueError, match="released too many"):
        held.admission.leave(Lane.API)
        held.admission.leave(Lane.API)


def test_a_read_that_ends_after_the_deadline_is_refused_in_the_references_words(settings: Any) -> None:
    settings.REQUEST_DEADLINE_MS = 100
    late = counted(measures.DEADLINES, lane="api", outcome="refused")
    held = Held(permits=1, view=lambda _: time.sleep(0.15) or HttpResponse("late"))
    refused = held.middleware(request())
    assert (refused.status_code, refused["Retry-After"]) == (503, "1")
    assert answer_of(refused)["code"] == "SERVICE_OVERLOADED"
    assert answer_of(refused)["message"] == "request exceeded the server deadline"
    assert counted(measures.DEADLINES, lane="api", outcome="refused") == late + 1


def test_a_write_that_landed_after_the_deadline_says_so(settings: Any) -> None:
    settings.REQUEST_DEADLINE_MS = 100
    held = Held(permits=1, view=lambda _: time.sleep(0.15) or HttpResponse("committed", status=201))
    answered = held.middleware(request(method="POST"))
    assert (answered.status_code, answered.content) == (201, b"committed")


def test_a_request_whose_deadline_passed_in_the_queue_is_not_begun(settings: Any) -> None:
    settings.REQUEST_DEADLINE_MS = 100
    begun: list[int] = []
    held = Held(permits=1, view=lambda _: begun.append(1) or HttpResponse())
    token = budget.arrived_at.set(time.monotonic() - 0.2)
    try:
        assert held.middleware(request()).status_code == 503
    finally:
        budget.arrived_at.reset(token)
    assert not begun


def test_the_engines_deadline_is_the_servers_refusal_and_an_unknown_commit_is_not() -> None:
    known = refusal(DeadlineExceeded("late"))
    assert (known.code, known.message) == ("SERVICE_OVERLOADED", "request exceeded the server deadline")
    assert known.members["committed"] is False and known.headers["Retry-After"] == "1"
    unknown = refusal(DeadlineExceeded("late", committed="unknown"))
    assert (unknown.code, unknown.members["committed"]) == ("COMMIT_UNKNOWN", "unknown")
    answer = exception_handler(DeadlineExceeded("late"), {"request": APIRequestFactory().get("/")})
    assert answer.status_code == 503


@pytest.mark.django_db
def test_no_statement_outlives_the_deadline(settings: Any) -> None:
    """SQLite is interrupted in the middle of a scan, PostgreSQL by its own time-out."""
    settings.REQUEST_DEADLINE_MS = 200
    endless = {
        "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "postgresql": "SELECT pg_sleep(30)",
    }[connection.vendor]
    seen: list[Exception] = []

    def scans(_: HttpRequest) -> HttpResponse:
        try:
            with connection.cursor() as cursor:
                cursor.execute(endless)
        except Exception as error:
            seen.append(error)
        return HttpResponse(status=503)

    started = time.monotonic()
    Held(permits=1, view=scans).middleware(request())
    assert time.monotonic() - started < 15
    assert [refusal(error).message for error in seen] == ["request exceeded the server deadline"]
    assert isinstance(seen[0].__cause__, OperationalError)
    if connection.vendor == "sqlite":  # PostgreSQL's transaction is aborted, as it must be
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,), "outside a request nothing is bounded"


def test_every_request_passes_here_inside_the_protocol_and_counting_layers(client: Any, monkeypatch: Any) -> None:
    """A6: whatever route it is for, known or not."""
    order = [name.rpartition(".")[2] for name in django_settings.MIDDLEWARE]
    placed = [order.index(name) for name in ("RequestIdMiddleware", "ObservationMiddleware", "GateMiddleware")]
    assert [*placed, order.index("AdmissionMiddleware")] == sorted([*placed, order.index("AdmissionMiddleware")])
    monkeypatch.setattr(Admission, "enter", lambda self, lane: lane is Lane.PROBE)
    for path in ("/v1/revision", "/v1/collections/a/b", "/v1/nothing", "/nothing", "/v1/openapi.json"):
        assert client.get(path).json()["code"] == "SERVICE_OVERLOADED", path
