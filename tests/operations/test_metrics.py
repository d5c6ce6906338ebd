"""A10 and more: metrics are clean text, add up over processes, stay bounded; alerts name only what there is."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from apps.http import measures
from apps.operations.metrics.truth import COUNT_CAP
from apps.operations.reasons import REASONS
from tests.operations.conftest import NOW_MS

ROOT = Path(__file__).resolve().parents[2]


def scrape(client: Client, **headers: str) -> dict[str, Any]:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(answer.content.decode())}


def value(families: dict[str, Any], sample: str, **labels: str) -> float:
    """The sum of the samples of that name that carry these labels."""
    found = [
        each.value
        for family in families.values()
        for each in family.samples
        if each.name == sample and labels.items() <= each.labels.items()
    ]
    return sum(found)


def test_a_request_is_counted_by_route_and_status_and_measured(api: Any) -> None:
    client = api()
    before = scrape(client)
    assert client.get("/v1/collections/orders/none").status_code == 404
    after = scrape(client)
    route = "/v1/collections/<str:collection>/<str:record>"
    labels = {"route": route, "method": "GET", "status": "404"}
    assert value(after, "feltdb_requests_total", **labels) == value(before, "feltdb_requests_total", **labels) + 1
    count = "feltdb_request_duration_seconds_count"
    assert value(after, count, route=route) == value(before, count, route=route) + 1
    assert value(after, "feltdb_refusals_total", code="NOT_FOUND") >= 1


def test_no_id_of_a_client_becomes_a_label(api: Any) -> None:
    client = api()
    client.put_json("/v1/collections/orders/very-secret-id", {"a": 1})
    client.generic("BREW", "/v1/very-secret-path")
    text = client.get("/metrics").content.decode()
    assert "very-secret" not in text and "BREW" not in text


def test_commits_are_counted_by_outcome(api: Any) -> None:
    client = api()
    before = scrape(client)
    client.put_json("/v1/collections/orders/1", {"a": 1})
    client.post_json("/v1/collections/orders", {"id": "1"})
    after = scrape(client)
    for outcome in ("committed", "refused"):
        grown = value(after, "feltdb_commits_total", outcome=outcome) - value(
            before, "feltdb_commits_total", outcome=outcome
        )
        assert grown == 1, outcome


def test_forces_are_timed_and_there_are_no_more_than_commits_wait_for(api: Any) -> None:
    client = api()
    client.put_json("/v1/collections/orders/1", {"a": 0})
    before = scrape(client)
    for number in range(3):
        client.put_json("/v1/collections/orders/1", {"a": number})
    after = scrape(client)
    count, total = "feltdb_force_seconds_count", "feltdb_force_seconds_sum"
    # Each scrape proves a forced write of its own.
    assert 3 <= value(after, count) - value(before, count) <= 3 + 2
    assert 0 < value(after, total) - value(before, total) < 60


def test_a_lease_that_was_lost_is_counted(api: Any, make_work: Any) -> None:
    from apps.workloads import services

    work = make_work("one", definition_id="pack")
    taken = services.ClaimById(
        namespace=work.namespace, workload_id=work.workload_id, worker_id="w1", principal="worker:w1"
    )
    claim = services.claim(taken, now_ms=NOW_MS)
    services.start(claim.fence, now_ms=NOW_MS + 1)
    before = scrape(api())
    services.sweep(now_ms=NOW_MS + 3_600_000)
    after = scrape(api())
    name = "feltdb_leases_lost_total"
    assert value(after, name, seen="lease_expired") == value(before, name, seen="lease_expired") + 1


def test_work_is_counted_by_state_and_capability_and_the_oldest_tells_its_age(
    api: Any, namespace: str, make_work: Any, make_dead: Any
) -> None:
    make_work("one", definition_id="pack")
    make_dead("two", definition_id="ship")
    families = scrape(api())
    assert value(families, "feltdb_work", namespace=namespace, state="READY", capability="pack") == 1
    assert value(families, "feltdb_work", namespace=namespace, state="DEAD_LETTER", capability="ship") == 1
    assert value(families, "feltdb_dead_letters", namespace=namespace) == 1
    assert value(families, "feltdb_work_oldest_eligible_age_seconds", namespace=namespace) > 60


def test_counting_stops_at_the_cap(namespace: str, make_work: Any) -> None:
    from apps.workloads.overview import count_by_capability
    from apps.workloads.states import State

    for number in range(4):
        make_work(f"w{number}")
    assert count_by_capability(namespace, [State.READY], cap=3) == {(State.READY, "identity"): 3}
    assert COUNT_CAP >= 1_000


def test_metrics_are_for_operators_and_for_callers_on_this_host(api: Any, make_key: Any, settings: Any) -> None:
    assert Client().get("/metrics").status_code == 200
    assert Client().get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 401
    assert Client().get("/metrics", headers={"X-Forwarded-For": "203.0.113.9"}).status_code == 401
    assert api(make_key(scopes=["state:read"])).get("/metrics").status_code == 403
    assert api(make_key(scopes=["operator:read"])).get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 200
    settings.HTTPS = True
    assert Client().get("/metrics").status_code == 401, "a proxy on this host speaks for anybody"
    settings.HTTPS = False
    settings.HOST = "192.0.2.1"
    assert Client().get("/metrics").status_code == 401


@pytest.mark.django_db
def test_a_database_that_does_not_answer_leaves_gauges_out_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    from apps.operations.services import liveness

    def down(**_: Any) -> Any:
        raise OperationalError("gone")

    monkeypatch.setattr(liveness, "standings", down)
    families = scrape(Client())
    assert value(families, "feltdb_scrape_incomplete") == 1
    assert value(families, "feltdb_ready") == 0
    assert value(families, "feltdb_reasons", code="DATABASE_UNAVAILABLE") == 1


COUNTING = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "feltsite.settings"
from apps.http import measures
for _ in range(int(sys.argv[1])):
    measures.SHED.labels("api").inc()
print("counted", flush=True)
if len(sys.argv) > 2:
    sys.stdin.read()
"""
SUM = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "feltsite.settings"
from apps.http import measures
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector
registry = CollectorRegistry()
MultiProcessCollector(registry, path=str(measures.FOLDER))
print(registry.get_sample_value("feltdb_requests_shed_total", {"lane": "api"}))
"""


def run(data_dir: Path, code: str, *arguments: str) -> str:
    environment = {**os.environ, "FELTDB_DATA_DIR": str(data_dir)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_counts_of_processes_add_up_and_a_restart_takes_the_files_of_the_one_that_ended(tmp_path: Path) -> None:
    environment = {**os.environ, "FELTDB_DATA_DIR": str(tmp_path)}
    living = subprocess.Popen(
        [sys.executable, "-c", COUNTING, "5", "stay"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert living.stdin and living.stdout
    with living.stdin, living.stdout:
        living.stdout.readline()
        for _ in range(5):
            run(tmp_path, COUNTING, "2")
        assert float(run(tmp_path, SUM)) == 15
        files = sorted(path.name for path in (tmp_path / "metrics").glob("*.db"))
        assert files == ["counter_0.db", "counter_1.db", "histogram_0.db", "histogram_1.db"], (
            "two slots for two at once"
        )
        living.kill()
        living.wait()
    run(tmp_path, COUNTING, "1")
    assert float(run(tmp_path, SUM)) == 16, "what the killed one counted is kept"


FORKING = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "feltsite.settings"
from apps.http import measures
for _ in range(100):
    child = os.fork()
    if not child:
        measures.SHED.labels("api").inc()
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_hundred_processes_one_after_the_other_leave_the_files_of_one(tmp_path: Path) -> None:
    run(tmp_path, FORKING)
    assert float(run(tmp_path, SUM)) == 100
    assert len(list((tmp_path / "metrics").glob("*.db"))) == len(measures.KINDS)


def test_a_start_cleans_what_no_living_process_holds(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    dead, living = measures.Slot(folder), measures.Slot(folder)
    assert (dead.name(), living.name()) == ("0", "1")
    os.close(dead._lock)
    measures.clean(folder)
    assert sorted(path.name for path in folder.glob("*.db")) == ["counter_1.db", "histogram_1.db"]
    os.close(living._lock)


def test_files_are_filled_ahead_so_that_a_full_disk_cannot_end_a_process_later(tmp_path: Path) -> None:
    slot = measures.Slot(tmp_path / "metrics")
    slot.name()
    for path in (tmp_path / "metrics").glob("*.db"):
        assert path.stat().st_blocks * 512 >= measures.FILE_BYTES
    os.close(slot._lock)


def test_a_folder_that_cannot_be_written_costs_the_counts_and_not_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metrics").write_text("a file where the folder should be")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "unchanged")
    assert measures.Slot(tmp_path / "metrics").name() == "0"


def metrics_named_in(expression: str) -> set[str]:
    return set(re.findall(r"\bfeltdb_[a-z_]+", expression))


@pytest.mark.django_db
def test_alerts_name_only_metrics_and_reasons_that_exist(api: Any) -> None:
    client = api()
    client.put_json("/v1/collections/orders/1", {"a": 1})
    measures.SHED.labels("api").inc()
    measures.DEADLINES.labels("api", "refused").inc()
    measures.TRIGGERS_PASSED.labels("test").inc()
    samples = {each for family in scrape(client).values() for each in {s.name for s in family.samples} | {family.name}}
    rules = yaml.safe_load((ROOT / "docs/alerts.yml").read_text(encoding="utf-8"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len(alerts) >= 10
    for alert in alerts:
        assert metrics_named_in(alert["expr"]) <= samples, alert["alert"]
        assert metrics_named_in(alert["expr"]), alert["alert"]
        for code in re.findall(r'code="([A-Z_]+)"', alert["expr"]):
            assert code in REASONS


def test_a_process_that_starts_on_a_full_disk_leaves_no_file_that_stops_the_scrape(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = measures.slot_of_this_process()
    monkeypatch.setitem(os.environ, "PROMETHEUS_MULTIPROC_DIR", os.environ["PROMETHEUS_MULTIPROC_DIR"])

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "posix_fallocate", full)
        measures.Slot(measures.FOLDER).name()
    made = [path for path in measures.FOLDER.glob("*_*.*") if not path.name.endswith(f"_{held}.db")]
    assert not [path for path in made if path.stat().st_size < measures.FILE_BYTES]
    scrape(client)
