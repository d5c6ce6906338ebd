"""Schedules: one workload a due time, whoever makes it and however late."""

import json
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from apps.keys.principal import operator
from apps.keys.services import revoke_key
from apps.workloads.commands import Subject
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Schedule, Workload
from apps.workloads.services import scheduling
from apps.workloads.services.moving import Lost
from apps.workloads.services.scheduling import ScheduleDefinition
from apps.workloads.states import MissedRuns
from apps.workloads.worker import Worker
from tests.workloads.conftest import NAMESPACE
from tests.workloads.test_api import fits
from tests.workloads.test_lifecycle import refusal
from tests.workloads.test_worker import options

pytestmark = pytest.mark.django_db

ADA = operator("ada")
PATH = "/v1/schedules"
HOUR_MS = 3_600_000
WORK = {"definition_id": "identity", "input": {"n": 1}, "priority": 3, "retry_policy": {"max_attempts": 5}}


@pytest.fixture
def define(clock):
    """A function that defines a schedule for the full hour."""
    clock.ms = int(datetime(2026, 1, 1, 0, 30, tzinfo=UTC).timestamp() * 1000)

    def make(schedule_id="s1", **members):
        definition = ScheduleDefinition(
            **{"namespace": NAMESPACE, "schedule_id": schedule_id, "expression": "0 * * * *", "work": WORK, **members}
        )
        return scheduling.define(
            definition, by=ADA, requested_by=Subject(kind="human", id="ada"), now_ms=clock.ms
        ).schedule

    return make


def keys():
    return sorted(Workload.objects.values_list("request__idempotency_key", flat=True))


def test_a_due_time_makes_one_workload_under_its_own_key(define, clock):
    schedule = define()
    due = clock.ms + HOUR_MS // 2
    assert schedule.next_at_ms == due and scheduling.run_due(now_ms=due - 1) == 0
    assert scheduling.run_due(now_ms=due) == 1 and scheduling.run_due(now_ms=due) == 0
    work = Workload.objects.select_related("request").get()
    assert work.request.idempotency_key == f"schedule:s1:{due}" and work.trigger == "schedule:s1"
    assert (work.request.not_before_at_ms, work.eligible_at_ms, work.priority) == (due, due, 3)
    assert work.request.input == {"n": 1} and work.max_attempts == 5 and work.request.requester_id == "ada"
    row = Schedule.objects.get()
    assert (row.last_at_ms, row.last_workload_id, row.next_at_ms) == (due, work.workload_id, due + HOUR_MS)


@pytest.mark.parametrize(("missed", "made"), [("one", [5]), ("all", [1, 2, 3, 4, 5]), ("none", [])])
def test_what_was_missed_is_made_up_for_as_the_schedule_says(define, clock, missed, made):
    first = define(missed=MissedRuns(missed)).next_at_ms
    late = clock.ms + 5 * HOUR_MS
    scheduling.run_due(now_ms=late)
    assert keys() == [f"schedule:s1:{first + (number - 1) * HOUR_MS}" for number in made]
    assert Schedule.objects.get().next_at_ms == first + 5 * HOUR_MS
    assert scheduling.run_due(now_ms=first + 5 * HOUR_MS + 59_000) == 1, "a little late is not missed"


def test_all_that_was_missed_is_made_in_bounded_batches(define, clock):
    define(expression="* * * * *", missed=MissedRuns.ALL)
    late = clock.ms + 250 * 60_000
    assert [scheduling.run_due(now_ms=late) for _ in range(4)] == [100, 100, 50, 0]
    assert len(set(keys())) == 250


def test_of_two_workers_one_makes_it_and_the_other_nothing(define, clock):
    stale = define()
    due = stale.next_at_ms
    assert scheduling.run_due(now_ms=due) == 1
    with pytest.raises(Lost):
        scheduling._fire(stale, due)
    assert Workload.objects.count() == 1


def test_a_definition_goes_on_from_now_and_the_same_one_changes_nothing(define, clock):
    before = define()
    same = define()
    assert same.revision == before.revision
    clock.pass_ms(10 * HOUR_MS)
    changed = define(expression=" 15  * * * * ")
    assert changed.expression == "15 * * * *" and changed.revision == 2
    assert changed.next_at_ms > clock.ms and scheduling.run_due(now_ms=clock.ms) == 0


def test_a_paused_schedule_lets_due_times_pass(define, clock):
    define()
    asked = {"by": ADA, "now_ms": clock.ms}
    for _ in range(2):
        assert scheduling.pause(NAMESPACE, "s1", **asked).next_at_ms is None
    clock.pass_ms(10 * HOUR_MS)
    assert scheduling.run_due(now_ms=clock.ms) == 0
    row = scheduling.resume(NAMESPACE, "s1", by=ADA, now_ms=clock.ms)
    assert row.state == "active" and row.next_at_ms > clock.ms and scheduling.run_due(now_ms=clock.ms) == 0
    define("s2")
    scheduling.pause(NAMESPACE, "s2", by=ADA, now_ms=clock.ms)
    assert define("s2", expression="1 * * * *").next_at_ms is None, "a new definition does not resume it"


@pytest.mark.parametrize(
    ("members", "code", "pointer"),
    [
        ({"expression": "often"}, "SCHEDULE_INVALID", "/expression"),
        ({"expression": "* " * 101}, "SCHEDULE_INVALID", "/expression"),
        ({"time_zone": "Mars/Olympus"}, "SCHEDULE_INVALID", "/time_zone"),
        ({"schedule_id": " "}, "SCHEDULE_INVALID", "/schedule_id"),
        ({"schedule_id": "x" * 129}, "SCHEDULE_INVALID", "/schedule_id"),
        ({"work": {"definition_id": ""}}, "WORKLOAD_INVALID", "/definition_id"),
        ({"work": {**WORK, "input": {"password": "x"}}}, "WORKLOAD_SECRET_REJECTED", "/input/password"),
    ],
)
def test_what_cannot_be_a_schedule_or_never_work_is_refused(define, members, code, pointer):
    with pytest.raises(WorkloadError) as refused:
        define(**members)
    assert (refused.value.code, refused.value.details["pointer"]) == (code, pointer)
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"state": "lost", "next_at_ms": None}, "schedule_state_is_known"),
        ({"missed": "some"}, "schedule_missed_is_known"),
        ({"state": "paused"}, "schedule_due_only_if_active"),
        ({"expression": ""}, "schedule_is_named"),
    ],
)
def test_a_schedules_row_cannot_be_made_to_lie(define, values, constraint):
    define()
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Schedule.objects.update(**values)


def test_a_schedule_whose_zone_is_gone_is_blocked_and_the_others_go_on(define, clock):
    bad, _ = define("bad"), define("good")
    Schedule.objects.filter(pk=bad.pk).update(time_zone="Mars/Olympus")
    assert scheduling.run_due(now_ms=bad.next_at_ms) == 1
    row = Schedule.objects.get(pk=bad.pk)
    assert (row.state, row.next_at_ms) == ("blocked", None) and row.failure.startswith("SCHEDULE_INVALID")


def test_a_due_time_whose_key_made_other_work_is_told_and_passed(define, clock, make_work):
    schedule = define()
    key = f"schedule:s1:{schedule.next_at_ms}"
    make_work(key, requested_by=Subject(kind="human", id="ada"), input="other")
    assert scheduling.run_due(now_ms=schedule.next_at_ms) == 0
    row = Schedule.objects.get()
    assert row.failure.startswith("CONFLICT") and row.next_at_ms == schedule.next_at_ms + HOUR_MS


def test_a_schedule_over_http_makes_work_and_is_blocked_when_its_authority_ends(api, make_key, clock):
    issued = make_key(name="owner")
    owner, boss = api(issued), api(make_key(name="boss"))
    body = {"schedule_id": "s1", "expression": "* * * * *", "time_zone": "Europe/Berlin", "work": WORK}
    made = owner.post_json(PATH, body)
    assert made.status_code == 201 and made["Location"] == f"{PATH}/s1"
    shown = fits("Schedule", made.json())
    assert shown["upcoming_at_ms"][0] == shown["next_at_ms"] and len(shown["upcoming_at_ms"]) == 5
    assert owner.post_json(PATH, body).status_code == 200
    bad = owner.post_json(PATH, {**body, "expression": "x"})
    assert (bad.status_code, bad.json()["code"]) == (422, "SCHEDULE_INVALID")
    assert owner.post_json(PATH, {**body, "work": {}}).json()["details"]["pointer"] == "/work"
    assert [each["schedule_id"] for each in fits("SchedulePage", boss.get(PATH).json())["schedules"]] == ["s1"]

    assert scheduling.run_due(now_ms=shown["next_at_ms"]) == 1
    read = fits("Schedule", boss.get(f"{PATH}/s1").json())
    assert boss.get(f"/v1/workloads/{read['last_workload_id']}").json()["trigger"] == "schedule:s1"

    revoke_key(issued.key.pk, by=ADA)
    assert scheduling.run_due(now_ms=read["next_at_ms"]) == 0
    blocked = boss.get(f"{PATH}/s1").json()
    assert blocked["state"] == "blocked" and blocked["failure"].startswith("GRANT_")
    resumed = boss.post_json(f"{PATH}/s1/resume", {"reason": "mine now"}).json()
    assert resumed["state"] == "active" and resumed["failure"] is None
    assert scheduling.run_due(now_ms=resumed["upcoming_at_ms"][3]) == 1
    assert boss.post_json(f"{PATH}/s1/pause").json()["state"] == "paused"
    assert boss.delete(f"{PATH}/s1").status_code == 204
    assert boss.get(f"{PATH}/s1").json()["code"] == "SCHEDULE_NOT_FOUND"


def test_the_command_defines_lists_shows_and_operates(namespace, tmp_path):
    file = tmp_path / "schedule.json"
    file.write_text(json.dumps({"schedule_id": "s1", "expression": "0 6 * * *", "work": WORK}))

    def run(*arguments):
        out = StringIO()
        call_command("schedule", *arguments, "--namespace", namespace, stdout=out)
        return out.getvalue()

    assert json.loads(run("define", "--input", str(file), "--json"))["state"] == "active"
    assert "s1" in run("list") and "0 6 * * * UTC" in run("show", "s1")
    assert json.loads(run("pause", "s1", "--json"))["next_at_ms"] is None
    assert json.loads(run("resume", "s1", "--reason", "go", "--json"))["state"] == "active"
    assert json.loads(run("list", "--json"))["schedules"][0]["schedule_id"] == "s1"
    assert json.loads(run("delete", "s1", "--json"))["deleted"] and "no schedules" in run("list")
    err = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("schedule", "show", "s1", "--namespace", namespace, stderr=err)
    assert ended.value.code == 1 and "SCHEDULE_NOT_FOUND" in err.getvalue()


def test_there_is_no_schedule_of_another_namespace(define):
    define()
    with refusal("SCHEDULE_NOT_FOUND"):
        scheduling.find("other", "s1")


@pytest.mark.django_db(transaction=True)
def test_a_worker_runs_what_is_due(define):
    define()
    Schedule.objects.update(next_at_ms=1)
    assert Worker(options()).run_once() == 1
    assert Workload.objects.get().state == "SUCCEEDED"
