"""What may go wrong with a running instance, done to real processes: told with its reason and the next step in
readiness, metrics and doctor, the first two within five seconds of the fault, and healed by itself where that is
promised. The faults are in `faults.py`.

Cost: about 100 s, most of it starting two servers (one over PostgreSQL, one on a small disk) and `doctor` once a fault.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from apps.operations.reasons import REASONS, Severity
from demo.instance import Instance
from tests.disk import small_disk
from tests.engine.injection import DATA_SYNC, Injection
from tests.operations import faults
from tests.operations.faults import HEALED_S, Link, Place, children, eventually

pytestmark = pytest.mark.acceptance

TOLD_S = 5.0
SHORT = {"WEB_WORKERS": "1", "FELTDB_REQUEST_DEADLINE_MS": "2500"}
POSTGRES = os.environ.get("FELTDB_TEST_POSTGRES_URL", "postgres://root@127.0.0.1:5432/test")


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An instance whose way to its database can be cut."""
    found = urlsplit(POSTGRES)
    name = f"feltdb_faults_{os.getpid()}"
    with psycopg.connect(POSTGRES, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    link = Link(found.hostname or "127.0.0.1", found.port or 5432)
    account = found.netloc.rpartition("@")[0]
    url = f"postgres://{account}@127.0.0.1:{link.port}/{name}"
    try:
        with Instance(tmp_path_factory.mktemp("faults") / "data", DATABASE_URL=url, **SHORT) as instance:
            instance.start_server()
            past = f"{POSTGRES.rpartition('/')[0]}/{name}"
            yield Place(instance=instance, key=instance.new_key("*"), link=link, database=past)
    finally:
        link.close()
        with psycopg.connect(POSTGRES, autocommit=True) as server:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def on_small_disk() -> Iterator[Place]:
    """An instance, its database included, on a disk that can be filled."""
    with small_disk(megabytes=300) as disk, Instance(disk / "data", **SHORT) as instance:
        instance.start_server()
        yield Place(instance=instance, key=instance.new_key("*"), disk=disk)


Inflict = Callable[[Place], AbstractContextManager[None]]
SQLITE, ON_POSTGRES = "on_small_disk", "on_postgres"
FAULTS: list[tuple[str, Inflict, str, dict[str, dict[str, str]]]] = [
    (SQLITE, faults.turn_held_by_a_stopped_process, "STORAGE_STALLED", {}),
    (SQLITE, faults.disk_filled, "STORAGE_FULL", {}),
    (SQLITE, faults.sqlites_turn_held_by_a_stopped_process, "DATABASE_STALLED", {"feltdb_scrape_incomplete": {}}),
    (SQLITE, faults.sqlite_held_by_a_stopped_process, "DATABASE_STALLED", {"feltdb_scrape_incomplete": {}}),
    (SQLITE, faults.worker_killed, "WORKER_LOST", {"feltdb_workers": {"life": "dead"}}),
    (SQLITE, faults.worker_stopped, "WORKER_LOST", {"feltdb_workers": {"life": "stopped"}}),
    (SQLITE, faults.trigger_quarantined, "TRIGGER_QUARANTINE", {"feltdb_trigger_quarantine": {}}),
    (SQLITE, faults.trigger_blocked, "TRIGGER_BLOCKED", {"feltdb_triggers": {"state": "blocked"}}),
    (SQLITE, faults.force_failed, "STORAGE_FAILED", {}),
    (ON_POSTGRES, faults.database_lost, "DATABASE_UNAVAILABLE", {"feltdb_scrape_incomplete": {}}),
    (ON_POSTGRES, faults.database_silent, "DATABASE_STALLED", {"feltdb_scrape_incomplete": {}}),
    (ON_POSTGRES, faults.table_locked, "DATABASE_STALLED", {"feltdb_scrape_incomplete": {}}),
    (ON_POSTGRES, faults.worker_killed, "WORKER_LOST", {"feltdb_workers": {"life": "dead"}}),
    (ON_POSTGRES, faults.trigger_quarantined, "TRIGGER_QUARANTINE", {"feltdb_trigger_quarantine": {}}),
]


def told(place: Place, code: str) -> tuple[float, float]:
    """Ask readiness and metrics side by side until each tells it; return after how many seconds each had."""
    took: dict[str, float] = {}

    def ask(name: str, check: Callable[[], Any]) -> None:
        took[name] = eventually(check, TOLD_S + HEALED_S, f"{name} tells {code}")

    checks = {
        "readiness": lambda: code in place.ready()[1],
        "metrics": lambda: place.measured("feltdb_reasons", code=code) >= 1,
    }
    threads = [threading.Thread(target=ask, args=each) for each in checks.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(took) == set(checks), f"told by {sorted(took)} alone: {code}"
    return took["readiness"], took["metrics"]


@pytest.mark.parametrize(
    ("where", "inflict", "code", "gauges"), FAULTS, ids=[f"{each[1].__name__}-{each[0]}" for each in FAULTS]
)
def test_a_fault_is_told_by_readiness_metrics_and_doctor_with_the_next_step_and_heals(
    where: str, inflict: Inflict, code: str, gauges: dict[str, dict[str, str]], request: pytest.FixtureRequest
) -> None:
    place: Place = request.getfixturevalue(where)
    known = REASONS[code]
    assert place.put("kept", {"n": 1}).status_code in (200, 201)
    eventually(lambda: place.ready()[0] == 200 and code not in place.ready()[1], HEALED_S, "well before")
    with inflict(place):
        ready_s, metrics_s = told(place, code)
        status, reasons = place.ready()
        assert status == (503 if known.severity is Severity.BLOCKING else 200), reasons
        assert (reasons[code]["severity"], reasons[code]["next_step"]) == (known.severity, known.next_step)
        assert reasons[code]["subject"] and reasons[code]["message"]
        assert place.measured("feltdb_ready") == (status == 200)
        for gauge, labels in gauges.items():
            assert place.measured(gauge, **labels) >= 1, gauge
        assert httpx.get(f"{place.instance.url}/health", timeout=30).status_code == 200, "the process lives"
        began = time.monotonic()
        found = place.findings()
        doctor_s = time.monotonic() - began
        assert found[code]["next_step"] == known.next_step
    healed_s = eventually(lambda: place.ready()[0] == 200 and code not in place.ready()[1], HEALED_S, f"{code} is gone")
    eventually(lambda: place.measured("feltdb_ready") == 1, HEALED_S, "metrics tell so")
    assert place.put("after", {"n": 1}).status_code in (200, 201)
    print(
        f"{inflict.__name__} {where}: readiness after {ready_s:.1f} s, metrics after {metrics_s:.1f} s, "
        f"doctor took {doctor_s:.1f} s, healed after {healed_s:.1f} s"
    )
    assert max(ready_s, metrics_s) < TOLD_S, f"told after {ready_s:.1f} and {metrics_s:.1f} s"


def test_a_commit_whose_force_outlasts_the_deadline_is_told_true_or_unknown_and_its_id_settles_it(
    on_postgres: Place,
) -> None:
    deadline_s = int(SHORT["FELTDB_REQUEST_DEADLINE_MS"]) / 1000
    place, answers = on_postgres, {}
    (pid,) = children(place.instance)

    def send(name: str) -> None:
        body = {"transactionId": name, "operations": [{"collection": "held", "id": name, "value": {"n": 1}}]}
        with place.instance.client(place.key) as client:
            answers[name] = client.post("/transactions", json=body)

    names = [f"held-{time.time_ns()}-{number}" for number in range(3)]
    threads = [threading.Thread(target=send, args=(name,)) for name in names]
    began = time.monotonic()
    held_us = int((deadline_s + 1.5) * 1_000_000)
    with Injection(pid, place.log(), DATA_SYNC, f"delay_enter={held_us}"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    print(f"told after {time.monotonic() - began:.1f} s: {[each.status_code for each in answers.values()]}")
    assert len(answers) == 3
    assert time.monotonic() - began > deadline_s, "the force was held"
    told = [each.json().get("code", each.json().get("status")) for each in answers.values()]
    assert set(told) <= {"COMMIT_UNKNOWN", "committed"}, told
    with place.instance.client(place.key) as client:
        for name, answer in answers.items():
            if answer.status_code != 201:
                body = answer.json()
                assert (answer.status_code, body["committed"], body["transactionId"]) == (503, "unknown", name)
                assert answer.headers["Retry-After"] == "1"
            settled = client.get(f"/transactions/{name}")
            assert (settled.status_code, settled.json()["status"]) == (200, "committed")
            assert client.get(f"/collections/held/{name}").json()["version"] == 1
