"""A whole FeltDB of its own, as real processes: server and worker on a free port over one data directory.

For the demonstration and for tests that need real processes. Not for serving users: that is `make run`.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
STARTUP_SECONDS = 60.0
STOP_SECONDS = 30.0


def free_port() -> int:
    """Return a loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Instance:
    """One data directory with the processes that serve it. Use as a context manager: leaving it stops everything."""

    def __init__(self, data_dir: Path, **environment: str) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = data_dir / "processes.log"
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "feltsite.settings",
            "FELTDB_DATA_DIR": str(data_dir),
            "PORT": str(self.port),
            "HOST": "127.0.0.1",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        self.server: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Instance":
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.manage("setup")
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def manage(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run a management command and return its standard output."""
        done = subprocess.run(  # noqa: S603 - our own command with our own arguments
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if check and done.returncode:
            raise RuntimeError(f"manage.py {' '.join(arguments)} gave {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def new_key(self, *scopes: str, worker_id: str | None = None, namespace: str = "default") -> str:
        """Issue a key and return its secret."""
        arguments = ["--name", f"key {secrets.token_hex(4)}", "--namespace", namespace, "--scope", ",".join(scopes)]
        if worker_id:
            arguments += ["--worker", worker_id]
        secret: str = json.loads(self.manage("keys", "create", "--json", *arguments))["secret"]
        return secret

    def client(self, key: str) -> httpx.Client:
        """Return an HTTP client of this instance that carries the key."""
        return httpx.Client(base_url=f"{self.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60.0)

    def _start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with self.log_path.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own command
                command, cwd=ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def start_server(self, probe: str = "/health/ready") -> None:
        """Start gunicorn and wait until it is ready to serve: until the probe answers 200."""
        gunicorn = [sys.executable, "-m", "gunicorn", "--config", "feltsite/gunicorn.conf.py", "feltsite.wsgi"]
        self.server = self._start(gunicorn)
        deadline = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < deadline:
            if self.server.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}{probe}", timeout=5.0).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise RuntimeError(f"the server did not become ready; {self.log_path} says:\n{self.last_log_lines()}")

    def start_worker(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start one more worker process."""
        worker = self._start([sys.executable, "manage.py", "worker", *arguments])
        self.workers.append(worker)
        return worker

    def kill_server(self) -> None:
        """Kill gunicorn and all its workers, without a chance to clean up."""
        if self.server is not None:
            end(self.server, signal.SIGKILL)

    def kill_workers(self) -> None:
        """Kill every worker process, without a chance to clean up."""
        for worker in self.workers:
            end(worker, signal.SIGKILL)
        self.workers.clear()

    def stop(self) -> None:
        """Ask every process to stop, and kill what has not within the grace period."""
        processes = [*self.workers, *([self.server] if self.server else [])]
        for process in processes:
            end(process, signal.SIGTERM)
        for process in processes:
            if process.poll() is None:
                end(process, signal.SIGKILL)
        self.workers.clear()
        self.server = None

    def last_log_lines(self, count: int = 40) -> str:
        """Return the end of what the processes printed."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])

    def memory_bytes(self) -> dict[str, int]:
        """Return the proportional memory (PSS) of the server's and the workers' processes."""
        figures = {}
        for name, process in [("server", self.server), *[("worker", worker) for worker in self.workers]]:
            if process is not None:
                figures[name] = figures.get(name, 0) + sum(map(proportional_bytes, session_members(process.pid)))
        return figures


def end(process: "subprocess.Popen[Any]", number: signal.Signals) -> None:
    """Send a signal to the process's whole session and wait for the process, within the grace period."""
    if process.poll() is None:
        # A clean stop is the leader's business; a kill must reach its children as well.
        if number is signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        return


def session_members(leader: int) -> list[int]:
    """Return the ids of the live processes in the leader's session."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == leader:
                    members.append(int(entry.name))
            except ProcessLookupError:
                continue
    return members


def proportional_bytes(pid: int, member: str = "Pss") -> int:
    """Return the process's PSS: its own memory and its share of what it shares; `Pss_Anon` leaves out mapped files."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{member}:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
