"""Probes on a socket and in a process of their own: they answer when the server cannot, and nothing else is there.

About 12 s.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demo.instance import ROOT, Instance, end, free_port, session_members
from tests.operations.test_faults import eventually

pytestmark = pytest.mark.acceptance


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Instance, str]]:
    """A server, and the address of its probes."""
    port = free_port()
    with Instance(tmp_path / "data", WEB_WORKERS="1", FELTDB_PROBES_PORT=str(port)) as running:
        running.start_server()
        probes = running._start([sys.executable, "manage.py", "probes"])
        url = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert probes.poll() is None, running.last_log_lines()
            try:
                return httpx.get(f"{url}/health/ready", timeout=10).status_code == 200
            except httpx.TransportError:
                return False

        try:
            eventually(answers, 60, "the probes answer")
            yield running, url
        finally:
            end(probes, signal.SIGTERM)
        assert probes.returncode == 0


def test_probes_answer_while_every_process_of_the_server_is_stopped(both: tuple[Instance, str]) -> None:
    running, url = both
    key = running.new_key("*")
    with running.client(key) as client:
        assert client.put("/collections/orders/1", json={"n": 1}).status_code == 201
    assert running.server is not None
    server = session_members(running.server.pid)
    for pid in server:
        os.kill(pid, signal.SIGSTOP)
    try:
        for path in ("/health", "/health/ready", "/ready"):
            assert httpx.get(url + path, timeout=10).status_code == 200, path
        metrics = httpx.get(f"{url}/metrics", timeout=10).text
        counted = [line for line in metrics.splitlines() if line.startswith("feltdb_commits_total{")]
        assert any(line.endswith(" 1.0") for line in counted), "the server's counts are there"
        status = httpx.get(f"{url}/v1/status", headers={"Authorization": f"Bearer {key}"}, timeout=10)
        assert status.status_code == 200
        for path in ("/v1/collections/orders/1", "/admin/", "/v1/revision"):
            other = httpx.get(url + path, headers={"Authorization": f"Bearer {key}"}, timeout=10)
            assert (other.status_code, other.json()["code"]) == (404, "NOT_FOUND"), path
    finally:
        for pid in server:
            os.kill(pid, signal.SIGCONT)
    running.kill_server()
    assert httpx.get(f"{url}/health", timeout=10).status_code == 200, "the probes are not the server's"


def test_without_a_port_the_command_says_so_and_ends_and_a_port_taken_by_the_server_is_refused(tmp_path: Path) -> None:
    environment = {**os.environ, "FELTDB_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "feltsite.settings"}

    def run(**more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "manage.py", "probes"],
            cwd=ROOT,
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    without = run()
    assert without.returncode == 0 and "FELTDB_PROBES_PORT is not set" in without.stdout
    same = run(PORT="8123", FELTDB_PROBES_PORT="8123")
    assert same.returncode != 0 and "must be another port than PORT" in same.stderr and "Traceback" not in same.stderr
