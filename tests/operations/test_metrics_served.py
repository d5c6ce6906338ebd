"""Metrics of a real server of several processes: they add up over whoever is asked, and their files are bounded.

Cost: about 15 s. In torture a hundred processes are killed one after the other.
"""

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from demo.instance import Instance
from tests.operations.test_faults import children, eventually

pytestmark = pytest.mark.acceptance

PROCESSES = 3
ASKED = 60
KILLED, KILLED_IN_TORTURE = 4, 100
ROUTE = "/v1/revision"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with Instance(tmp_path / "data", WEB_WORKERS=str(PROCESSES), LOG_LEVEL="ERROR") as running:
        running.start_server()
        yield running


def scrape(instance: Instance) -> str:
    return httpx.get(f"{instance.url}/metrics", timeout=30).text


def counted(text: str, name: str, **labels: str) -> float:
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def ask(instance: Instance, key: str, times: int) -> None:
    """Send requests, each on a connection of its own: any process may get it."""
    for _ in range(times):
        headers = {"Authorization": f"Bearer {key}"}
        assert httpx.get(f"{instance.url}{ROUTE}", headers=headers, timeout=30).status_code == 200


def bytes_by_process(instance: Instance) -> dict[str, int]:
    """How many files of counts there are of each kind, and what they take."""
    files = list((instance.data_dir / "metrics").glob("*.db"))
    return {**Counter(path.stem.split("_")[0] for path in files), "bytes": sum(each.stat().st_size for each in files)}


def check_text(text: str) -> None:
    """As `promtool check metrics`: it parses, each name once, help and type, no sample twice, names of counters."""
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)) and names
    helped = set(re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE))
    typed = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    seen: set[Any] = set()
    for family in families:
        declared = family.name + ("_total" if family.type == "counter" else "")
        assert declared in helped and typed[declared] == family.type != "unknown", family.name
        assert re.fullmatch(r"feltdb_[a-z][a-z_]*", family.name) and not family.name.endswith(("_total", "_count"))
        for sample in family.samples:
            one = (sample.name, tuple(sorted(sample.labels.items())))
            assert one not in seen, one
            seen.add(one)
            assert sample.value == sample.value, "not a number"
            if family.type in ("counter", "histogram"):
                assert sample.value >= 0
    for histogram in (family for family in families if family.type == "histogram"):
        infinite = [each.value for each in histogram.samples if each.labels.get("le") == "+Inf"]
        counts = [each.value for each in histogram.samples if each.name.endswith("_count")]
        assert sorted(infinite) == sorted(counts)


def restart_one(instance: Instance, how_often: int) -> None:
    """Kill a server process so many times; each time another takes its place."""
    for _ in range(how_often):
        before = set(children(instance))
        os.kill(min(before), signal.SIGKILL)
        eventually(lambda before=before: len(set(children(instance)) - before) == 1, 30, "another process")


def add_up_and_stay_bounded(instance: Instance, killed: int) -> None:
    key = instance.new_key("*")
    labels = {"route": "/v1/revision", "method": "GET", "status": "200"}
    ask(instance, key, ASKED)
    texts = [scrape(instance) for _ in range(2 * PROCESSES)]
    assert {counted(text, "feltdb_requests_total", **labels) for text in texts} == {ASKED}, "whoever is asked"
    assert counted(texts[0], "feltdb_request_duration_seconds_count", route=ROUTE) == ASKED
    check_text(texts[-1])
    before = bytes_by_process(instance)
    assert before["counter"] <= PROCESSES and before["histogram"] <= PROCESSES
    restart_one(instance, killed)
    time.sleep(1)
    ask(instance, key, ASKED)
    assert counted(scrape(instance), "feltdb_requests_total", **labels) == 2 * ASKED, (
        "what the killed ones counted stays"
    )
    after = bytes_by_process(instance)
    assert after["counter"] <= PROCESSES + 1 and after["bytes"] <= before["bytes"] * (PROCESSES + 1) / PROCESSES, after
    print(f"{killed} processes killed: {before} then {after}")


def test_counts_add_up_over_processes_and_files_stay_bounded_over_restarts(instance: Instance) -> None:
    add_up_and_stay_bounded(instance, KILLED)


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_files_stay_bounded_over_a_hundred_restarts(instance: Instance) -> None:
    add_up_and_stay_bounded(instance, KILLED_IN_TORTURE)
