"""Retention: what is over and old moves to the archive, forced there before it is deleted; everything else stays."""

import fcntl
import json
import stat

import pytest

from apps.workloads import retention
from apps.workloads.commands import ApprovalPolicy, Completion, DependsOn, Failure, RetryPolicy
from apps.workloads.models import Attempt, Checkpoint, Dependency, Event, Request, Result, Workload
from apps.workloads.retention import DAY_MS, Retention
from apps.workloads.services import admit, cancel, checkpoint, complete, fail
from tests.workloads.conftest import NAMESPACE, state_of
from tests.workloads.test_api import fits

pytestmark = pytest.mark.django_db
DAYS = 30


@pytest.fixture
def old(tmp_path):
    """The retention of thirty days, over an archive of the test's own."""
    return Retention(DAYS, tmp_path / "archive" / "workloads")


def walk(kept, clock):
    """Walk through all there is; return how many were moved."""
    moved = 0
    while (count := kept.run(now_ms=clock.ms)) is not None:
        moved += count
    return moved


def lines(tmp_path):
    paths = sorted((tmp_path / "archive" / "workloads").rglob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.fixture
def finish(make_work, run, clock):
    """A function that makes work which succeeded."""

    def make(key="k1", **members):
        work = make_work(key, **members)
        claim = run(work)
        checkpoint(claim.fence, {"half": True}, now_ms=clock.ms)
        complete(claim.fence, Completion(result_id=f"r-{key}", output={"k": 1}), now_ms=clock.ms)
        return work

    return make


def test_what_is_over_moves_to_the_archive_whole_when_its_time_has_come(old, finish, make_work, clock, tmp_path):
    done, cancelled = finish("done"), make_work("cancelled")
    cancel(NAMESPACE, cancelled.workload_id, actor="human:ada", now_ms=clock.ms)
    clock.pass_ms(DAYS * DAY_MS)
    assert walk(old, clock) == 0, "at the very instant it is not yet older"
    clock.pass_ms(1)
    assert walk(old, clock) == 2 and walk(old, clock) == 0
    for model in (Workload, Request, Event, Attempt, Checkpoint, Result):
        assert not model.objects.exists(), model.__name__
    kept = {line["workload"]["workload_id"]: line for line in lines(tmp_path)}
    assert set(kept) == {done.workload_id, cancelled.workload_id}
    fits("Workload", kept[done.workload_id]["workload"])
    fits("WorkloadHistory", kept[done.workload_id]["history"])
    assert kept[done.workload_id]["workload"]["result"]["output"] == {"k": 1}
    assert kept[done.workload_id]["history"]["checkpoints"][0]["state"] == {"half": True}
    [path] = (tmp_path / "archive" / "workloads" / NAMESPACE).iterdir()
    assert path.name == "2023-11.jsonl" and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_not_over_dead_or_waited_for_stays(old, finish, make_work, run, clock, tmp_path):
    parent = finish("parent")
    waiting = make_work("child", dependencies=(DependsOn(workload_id=parent.workload_id),))
    dead = make_work("dead", retry_policy=RetryPolicy(max_attempts=1))
    fail(run(dead).fence, Failure(kind="broken"), now_ms=clock.ms)
    unapproved = make_work("unapproved", approval=ApprovalPolicy())
    clock.pass_ms(2 * DAYS * DAY_MS)
    recent = finish("recent")
    assert walk(old, clock) == 0 and lines(tmp_path) == []
    assert [state_of(work) for work in (parent, waiting, dead, unapproved, recent)] == [
        "SUCCEEDED",
        "READY",
        "DEAD_LETTER",
        "AWAITING_APPROVAL",
        "SUCCEEDED",
    ]
    cancel(NAMESPACE, waiting.workload_id, actor="human:ada", now_ms=clock.ms)
    assert walk(old, clock) == 1, "nobody waits for the parent any more; the child has only just ended"
    assert not Dependency.objects.exists() and state_of(waiting) == "CANCELLED"


def test_a_walk_is_bounded_and_covers_everything(old, make_work, clock, tmp_path):
    made = [make_work(f"k{number}") for number in range(120)]
    Workload.objects.filter(pk__in=[work.pk for work in made]).update(state="CANCELLED")
    clock.pass_ms(DAYS * DAY_MS + 1)
    assert [old.run(now_ms=clock.ms) for _ in range(3)] == [100, 20, None]
    assert len({line["workload"]["workload_id"] for line in lines(tmp_path)}) == 120


def test_a_crash_between_writing_and_deleting_repeats_a_line_and_loses_none(old, finish, clock, tmp_path, monkeypatch):
    work = finish()
    clock.pass_ms(DAYS * DAY_MS + 1)

    def crash(pks):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(retention, "_delete", crash)
        with pytest.raises(KeyboardInterrupt):
            old.run(now_ms=clock.ms)
    assert state_of(work) == "SUCCEEDED"
    assert walk(Retention(DAYS, tmp_path / "archive" / "workloads"), clock) == 1
    assert [line["workload"]["workload_id"] for line in lines(tmp_path)] == [work.workload_id] * 2


def test_where_another_process_is_at_it_nothing_is_done(old, finish, clock, tmp_path):
    finish()
    clock.pass_ms(DAYS * DAY_MS + 1)
    folder = tmp_path / "archive" / "workloads"
    folder.mkdir(parents=True)
    with open(folder / ".lock", "a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert old.run(now_ms=clock.ms) is None and lines(tmp_path) == []
    assert walk(old, clock) == 1


def test_with_its_rows_the_key_is_forgotten(old, finish, command, clock):
    work = finish()
    clock.pass_ms(DAYS * DAY_MS + 1)
    walk(old, clock)
    again = admit(command(), now_ms=clock.ms)
    assert again.created and again.workload.workload_id == work.workload_id


def test_by_default_everything_is_kept_and_the_workers_step_does_what_the_setting_says(finish, settings, data_dir):
    finish()
    step = retention.step()
    assert step.run(None) is False and Workload.objects.exists()
    settings.WORK_RETENTION_DAYS = 1
    step = retention.step()
    while step.run(None):
        pass
    assert not Workload.objects.exists() and (data_dir / "archive" / "workloads" / NAMESPACE).is_dir()
