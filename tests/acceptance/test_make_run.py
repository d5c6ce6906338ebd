"""`make run` as a newcomer meets it: one command serves, the README's tour works as written, Ctrl-C leaves nothing.

Cost: about 30 seconds. The virtual environment is there already; what a clean clone costs is measured by hand.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demo.instance import ROOT, end, free_port, session_members

pytestmark = pytest.mark.acceptance
START_SECONDS = 60


class MakeRun:
    """One `make run` in a session of its own, with everything it printed."""

    def __init__(self, data_dir: Path, port: int, output: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.output = output
        environment = {**os.environ, "FELTDB_DATA_DIR": str(data_dir), "PORT": str(port)}
        environment.pop("DJANGO_SETTINGS_MODULE", None)
        self.started = time.monotonic()
        with output.open("wb") as stream:
            self.process = subprocess.Popen(
                ["make", "run"], cwd=ROOT, env=environment, stdout=stream, stderr=stream, start_new_session=True
            )

    def wait_until_ready(self) -> None:
        """Return at the first 200 of /health/ready."""
        while time.monotonic() < self.started + START_SECONDS:
            assert self.process.poll() is None, self.output.read_text()
            try:
                if httpx.get(f"{self.url}/health/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(self.output.read_text())

    def wait_until_started(self, data_dir: Path) -> None:
        """Return as soon as supervisord has started a process, long before that is ready."""
        while time.monotonic() < self.started + START_SECONDS:
            assert self.process.poll() is None, self.output.read_text()
            with contextlib.suppress(OSError, ValueError):
                supervisor = int((data_dir / "supervisord.pid").read_text())
                if Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
                    return
            time.sleep(0.01)
        raise AssertionError(self.output.read_text())

    def press_ctrl_c(self) -> None:
        """Send SIGINT to the foreground process group, as a terminal does, and wait for the end."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(40)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[MakeRun]]:
    started: list[MakeRun] = []
    yield started
    for run in started:
        end(run.process, signal.SIGKILL)
        for left in session_members(run.process.pid):
            os.kill(left, signal.SIGKILL)


def test_one_command_serves_the_tour_and_ctrl_c_leaves_nothing_running(tmp_path: Path, runs: list[MakeRun]) -> None:
    first = MakeRun(tmp_path / "data", free_port(), tmp_path / "first.txt")
    runs.append(first)
    first.wait_until_ready()
    shown = first.output.read_text()
    found = re.search(r"export FELTDB_KEY=(fdb_\S+)", shown)
    assert found and "operator   admin   password" in shown, shown

    answers = paste_the_tour(first.url, found[1])

    assert len(answers) == 10, answers
    created, read, patched, moved, trigger, paid, workloads, feed = (
        json.loads(answers[place]) for place in (0, 1, 2, 3, 5, 6, 7, 8)
    )
    assert (created["id"], created["version"]) == ("1001", 1)
    assert read == created
    assert patched["version"] == 2 and patched["value"] == {"status": "packed", "total": 42.5}
    assert moved["status"] == "committed" and moved["duplicate"] is False
    assert json.loads(answers[4])["duplicate"] is True
    assert trigger["trigger_id"] == "order-paid"
    assert paid["value"]["status"] == "paid"
    assert [work["trigger"] for work in workloads["workloads"]] == ["state_change:order-paid"]
    assert [operation["kind"] for operation in feed["operations"]][:2] == ["insert", "update"]

    first.press_ctrl_c()
    assert session_members(first.process.pid) == []
    assert found[1] not in "".join(path.read_text(errors="replace") for path in (tmp_path / "data").rglob("*.log"))

    again = MakeRun(tmp_path / "data", free_port(), tmp_path / "again.txt")
    runs.append(again)
    again.wait_until_ready()
    assert "Installing" not in again.output.read_text(), "a second start sets nothing up"
    assert "FELTDB_KEY" not in again.output.read_text(), "secrets are shown by the first start only"
    kept = httpx.get(f"{again.url}/v1/collections/orders/1001", headers={"Authorization": f"Bearer {found[1]}"})
    assert kept.json()["value"]["status"] == "paid"
    again.press_ctrl_c()
    assert session_members(again.process.pid) == []


def test_a_taken_address_is_refused_in_plain_words_before_anything_starts(tmp_path: Path, runs: list[MakeRun]) -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        run = MakeRun(tmp_path / "data", port, tmp_path / "output.txt")
        runs.append(run)
        assert run.process.wait(30) != 0
    said = run.output.read_text()
    assert f"127.0.0.1:{port} is taken" in said and "Traceback" not in said, said


@pytest.mark.parametrize("moment", ["while they start", "when the server is ready"])
def test_a_supervisor_that_is_killed_takes_the_server_and_the_worker_with_it(
    tmp_path: Path, runs: list[MakeRun], moment: str
) -> None:
    data_dir = tmp_path / "data"
    run = MakeRun(data_dir, free_port(), tmp_path / "output.txt")
    runs.append(run)
    if moment == "while they start":
        run.wait_until_started(data_dir)
    else:
        run.wait_until_ready()

    os.kill(int((data_dir / "supervisord.pid").read_text()), signal.SIGKILL)

    run.process.wait(60)
    deadline = time.monotonic() + 40
    left = processes_of(data_dir)
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        left = processes_of(data_dir)
    still = [Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode() for each in left]
    for each in left:
        os.kill(each, signal.SIGKILL)
    assert left == [], (still, run.output.read_text())


def processes_of(data_dir: Path) -> list[int]:
    """Return the processes whose environment names this data directory."""
    wanted = f"FELTDB_DATA_DIR={data_dir}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in place.read_bytes().split(b"\0"):
                found.append(int(place.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def paste_the_tour(url: str, key: str) -> list[str]:
    """Run the README's shell blocks in order, in one shell; return what each `feltdb` call answered, one a line.

    The transaction is sent a second time, as the text says to try, and the work is given a moment to be done.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tour = text[text.index("## Five minutes with curl") : text.index("## Where to go next")]
    blocks = re.findall(r"```sh\n(.*?)```", tour, flags=re.DOTALL)
    script = []
    for block in blocks:
        block = block.replace("export FELTDB_KEY=fdb_...", f"export FELTDB_KEY={key}")
        block = block.replace("http://127.0.0.1:8000", url)
        script.append(block)
        if "$api/transactions" in block:
            script.append(block)
        if "$api/triggers" in block:
            script.append("sleep 3")
    script.append('feltdb "$api/revision"')
    done = subprocess.run(
        ["bash", "-eu", "-c", "\n".join(script)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line]
