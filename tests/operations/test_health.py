"""B1 to B13 of the reference's acceptance list: liveness, readiness, and what they observe, with the next step."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from apps.http import strict_json
from apps.operations.models import WorkerProcess
from apps.operations.reasons import REASONS, Severity
from apps.operations.services import doctor, health, liveness, probing
from apps.operations.services.liveness import Life
from apps.state import stores
from apps.triggers.models import NamespacePosition
from apps.workloads.clock import now_ms
from apps.workloads.worker_options import WorkerOptions
from feltdb_engine.errors import StorageFailed

pytestmark = pytest.mark.django_db


def ready(client: Client | None = None) -> tuple[int, dict[str, Any]]:
    health.forget()
    answer = (client or Client()).get("/health/ready")
    return answer.status_code, answer.json()


def codes(body: dict[str, Any]) -> list[str]:
    return [each["code"] for each in body["reasons"]]


def seen_as(namespace: str, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Let the namespace's store say something else of its health."""
    from dataclasses import replace

    store = stores.store(namespace)
    true = store.health()
    monkeypatch.setattr(store, "health", lambda: replace(true, **changes))


def test_a_ready_instance_answers_200_with_label_format_and_time(namespace: str) -> None:
    status, body = ready()
    assert (status, body["ready"], body["storage"], body["state"]) == (200, True, "clean", "healthy")
    assert isinstance(body["durable_format"], int) and body["probe_ms"] >= 0 and body["reasons"] == []
    for path in ("/health", "/v1/health", "/v1/health/ready", "/ready"):
        assert Client().get(path).status_code == 200, path


def test_readiness_reads_and_forces_a_write_that_no_reader_of_the_feed_sees(namespace: str) -> None:
    store = stores.store(namespace)
    before, head = store.health(), store.head()
    assert ready()[0] == 200
    after = store.health()
    assert after.durable > before.durable, "a frame was appended and forced"
    assert store.head() == head and store.changes(head).operations == ()


def test_a_recovered_store_is_degraded_and_serves(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recovered = "recovered-incomplete-write"
    seen_as(namespace, monkeypatch, storage=recovered, byte_offset=7, discarded_bytes=3, reasons=(recovered,))
    body = Client().get("/health").json()
    assert (body["status"], body["storage"]) == ("degraded", "recovered-incomplete-write")
    status, body = ready()
    assert (status, body["ready"], body["state"]) == (200, True, "degraded")
    assert codes(body) == ["STORAGE_RECOVERED_INCOMPLETE_WRITE"]


@pytest.mark.parametrize(("label", "state"), [("failed", "recovery-required"), ("rebuilding", "recovering")])
def test_a_store_that_is_not_nominal_makes_503_with_the_same_body(
    namespace: str, monkeypatch: pytest.MonkeyPatch, label: str, state: str
) -> None:
    nominal = ready()[1]
    seen_as(namespace, monkeypatch, storage=label, reasons=(label,))
    status, body = ready()
    assert (status, body["ready"], body["storage"], body["state"]) == (503, False, label, state)
    assert nominal.keys() <= body.keys()
    assert Client().get("/health").status_code == 200, "liveness never refuses"


def test_a_storage_error_is_named_with_the_next_step(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise StorageFailed("the disk said no")

    monkeypatch.setattr(stores.store(namespace), "commit", fail)
    status, body = ready()
    assert (status, body["code"], body["ready"]) == (503, "STORAGE_FAILED", False)
    assert body["reasons"][0]["next_step"] == REASONS["STORAGE_FAILED"].next_step
    assert body["reasons"][0]["message"] == "the disk said no"


def test_an_error_of_the_probe_itself_is_named(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(stores.store(namespace), "page", fail)
    assert ready()[1]["code"] == "STORAGE_PROBE_FAILED"
    health.forget()
    monkeypatch.setattr(health, "_look", fail)
    monkeypatch.setattr(health, "_last", {})
    answer = Client().get("/health/ready")
    assert (answer.status_code, answer.json()["code"], answer.json()["ready"]) == (503, "STORAGE_PROBE_FAILED", False)
    short = Client().get("/ready")
    assert (short.status_code, short.json()["message"]) == (503, "readiness check temporarily unavailable")


def test_a_disk_that_hangs_is_a_stalled_store_and_is_probed_again_only_when_it_has_answered(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PROBE_DEADLINE_S", 0.3)
    store, hang, begun = stores.store(namespace), threading.Event(), []
    page = store.page

    def hangs(*arguments: Any, **named: Any) -> Any:
        begun.append(1)
        hang.wait(60)
        return page(*arguments, **named)

    monkeypatch.setattr(store, "page", hangs)
    started = time.monotonic()
    assert ready()[1]["code"] == "STORAGE_STALLED"
    assert ready()[1]["code"] == "STORAGE_STALLED"
    assert time.monotonic() - started < 20
    assert len(begun) == 1, "no second thread for a disk that hangs"
    hang.set()
    probing._hanging[namespace].join(60)
    assert ready()[0] == 200


HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "rb+")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_stopped_process_that_has_the_writers_turn_is_a_stalled_store_until_it_goes_on(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PROBE_DEADLINE_S", 0.5)
    assert ready()[0] == 200
    turn = stores.store(namespace)._core.turn._file._fd
    path = os.readlink(f"/proc/self/fd/{turn}")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin and holder.stdout
    with holder.stdin, holder.stdout:
        holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        status, body = ready()
        assert (status, body["code"]) == (503, "STORAGE_STALLED")
        assert "stopped" in body["reasons"][0]["next_step"]
        assert (
            'feltdb_reasons{code="STORAGE_STALLED",severity="blocking"} 1.0'
            in Client().get("/metrics").content.decode()
        )
        assert [each.code for each in doctor.examine(verify=False).findings if each.blocking] == ["STORAGE_STALLED"]
        holder.kill()
        holder.wait()
    probing._hanging[namespace].join(60)
    assert ready()[0] == 200
    with open(path, "rb+") as free:
        fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lost_database_is_a_reason_and_no_crash(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(**_: Any) -> Any:
        raise OperationalError("connection refused")

    monkeypatch.setattr(liveness, "standings", down)
    status, body = ready()
    assert (status, body["code"], body["writes"]) == (503, "DATABASE_UNAVAILABLE", "unavailable")


def test_a_clock_behind_the_newest_write_is_told(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ready()[0] == 200
    real = time.time_ns
    monkeypatch.setattr(probing.time, "time_ns", lambda: real() - 60_000_000_000)
    status, body = ready()
    assert (status, body["state"]) == (200, "degraded")
    assert codes(body) == ["CLOCK_BEHIND"]


def a_worker(**changes: Any) -> WorkerProcess:
    process = liveness._this_process(WorkerOptions(worker_id=changes.pop("worker_id", "w1")))
    for name, value in changes.items():
        setattr(process, name, value)
    process.save(force_insert=True)
    return process


def test_membership_counts_a_worker_that_died_and_forgets_it_when_another_starts(namespace: str) -> None:
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    a_worker(pid=gone.pid, started_ticks=liveness.started_ticks(gone.pid))
    assert ready()[1]["state"] == "healthy"
    gone.kill()
    gone.wait()
    assert gone.stdin
    gone.stdin.close()
    body = Client().get("/health").json() if not health.forget() else {}
    assert (body["status"], body["membership"], codes(body)) == ("degraded", "attention-required", ["WORKER_LOST"])
    liveness.step(WorkerOptions(worker_id="w2")).run(threading.Event())
    assert ready()[1]["state"] == "healthy"
    assert list(WorkerProcess.objects.values_list("pk", flat=True)) == ["w2"]


def test_a_worker_of_another_host_is_lost_when_it_is_silent(namespace: str) -> None:
    a_worker(host="elsewhere", pid=1, started_ticks=1)
    (standing,) = liveness.standings(now=now_ms())
    assert standing.life is Life.ALIVE
    (standing,) = liveness.standings(now=now_ms() + liveness.SILENT_MS + 1_000)
    assert standing.life is Life.SILENT


def test_a_worker_that_ends_in_good_order_leaves_nothing(namespace: str) -> None:
    step = liveness.step(WorkerOptions(worker_id="w1"))
    assert step.run(threading.Event()) is False
    assert step.close
    step.close()
    assert not WorkerProcess.objects.exists() and ready()[1]["state"] == "healthy"


def test_work_that_waits_without_any_worker_is_told(namespace: str, make_work: Any) -> None:
    make_work("old")
    assert codes(ready()[1]) == ["WORKER_MISSING"]
    a_worker()
    assert codes(ready()[1]) == ["WORK_WAITING"]


def test_store_and_database_that_do_not_belong_together_are_told(namespace: str) -> None:
    NamespacePosition.objects.create(
        namespace=namespace, store_id="s", instance_id="i", mismatch_code="X", mismatch="apart", updated_at_ms=1
    )
    assert codes(ready()[1]) == ["TRIGGERS_APART"]


def test_where_and_what_exactly_is_for_operators_alone(namespace: str, make_work: Any) -> None:
    make_work("old")
    health.forget()
    stranger = Client().get("/health/ready", REMOTE_ADDR="203.0.113.9").json()
    assert codes(stranger) == ["WORKER_MISSING"]
    assert namespace not in strict_json.dumps(stranger).decode()
    assert stranger["reasons"][0].keys() == {"code", "severity", "next_step"}


def test_status_shows_every_store_to_an_operator(api: Any, make_key: Any, namespace: str) -> None:
    answer = api(make_key(scopes=["operator:read"])).get("/v1/status")
    (store,) = answer.json()["stores"]
    assert answer.status_code == 200 and (store["namespace"], store["write"]) == (namespace, True)


def test_every_reason_says_what_to_do() -> None:
    for code, known in REASONS.items():
        assert code.isupper() and known.next_step.endswith("."), code
        assert known.severity in Severity
