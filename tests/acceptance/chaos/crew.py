"""Everything the proof has running: started, killed, stopped and continued at the moments that a seed gives."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from demo.instance import free_port
from tests.acceptance.chaos import clock
from tests.acceptance.chaos.journal import DIRECTORY_VARIABLE

ROOT = Path(__file__).resolve().parents[3]
HOUR_MS = 3_600_000
STOP_S = 3.0  # longer than a lease
REMOTES = 2
TARGETS = [
    *[("evaluator", n) for n in range(2)],
    *[("worker", n) for n in range(2)],
    *[("remote", n) for n in range(REMOTES)],
    *[("writer", n) for n in range(2)],
]
TRIGGERS = {
    "paid-new": {"change_kind": "insert", "predicate": {"field": "status", "equals": "paid"}},
    "paid-gone": {"change_kind": "delete", "predicate": {"field": "status", "equals": "paid"}},
}
SET_UP = """
import json, sys
import django
django.setup()
from django.core.management import call_command
call_command("setup", verbosity=0, stdout=sys.stderr)
from apps.keys.principal import operator
from apps.keys.services import issue_key
from apps.triggers import services
from apps.workloads.clock import now_ms
by = operator("chaos")
for document in json.load(sys.stdin):
    services.define("default", document, by=by, now_ms=now_ms())
work = ["workload:claim", "workload:execute"]
keys = [issue_key(name="chaos", scopes=["state:read", "state:write"], namespaces=["default"], issuer=by)]
keys += [
    issue_key(name=f"r{n}", scopes=work, namespaces=["default"], issuer=by, worker_id=f"remote-{n}")
    for n in range(int(sys.argv[1]))
]
print(json.dumps([key.secret for key in keys]))
"""


@dataclass
class Crew:
    """The processes by role and number, over one data directory and one database ("": SQLite in the directory)."""

    data_dir: Path
    seed: int
    database_url: str = ""
    port: int = field(default_factory=free_port)
    keys: list[str] = field(default_factory=list)
    until_s: float = 0.0
    running: dict[tuple[str, int], "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.journals = self.data_dir / "journals"
        self.journals.mkdir(parents=True)
        self.clock = self.data_dir / "clock"
        clock.create(self.clock)
        self.url = f"http://127.0.0.1:{self.port}"

    def environment(self, role: str, number: int) -> dict[str, str]:
        """Return a process's environment. On a shared database each has the clock of another host, an hour off."""
        own = random.Random(f"{self.seed}-{role}-{number}").randint(-HOUR_MS, HOUR_MS) if self.database_url else 0
        keys = {f"CHAOS_REMOTE_KEY_{n}": key for n, key in enumerate(self.keys[1:])}
        database = {"DATABASE_URL": self.database_url} if self.database_url else {}
        inherited = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        return {
            **inherited,
            **database,
            "DJANGO_SETTINGS_MODULE": "feltsite.settings",  # not the tests' own
            "FELTDB_DATA_DIR": str(self.data_dir),
            "FELTDB_APPS": "tests.acceptance.chaos",
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            DIRECTORY_VARIABLE: str(self.journals),
            clock.FILE_VARIABLE: str(self.clock),
            clock.OWN_VARIABLE: str(own),
            "CHAOS_URL": self.url,
            "CHAOS_UNTIL_S": str(self.until_s),
            "CHAOS_KEY": self.keys[0] if self.keys else "",
            **keys,
        }

    def set_up(self) -> None:
        """Make database, keys and triggers."""
        defaults = {
            "source_collection": "orders",
            "target_capability": "chaos.record",
            "retry_policy": {"max_attempts": 90, "initial_delay_ms": 50, "max_delay_ms": 200},
        }
        documents = [{"trigger_id": name, **defaults, **members} for name, members in TRIGGERS.items()]
        done = subprocess.run(
            [sys.executable, "-c", SET_UP, str(REMOTES)],
            cwd=ROOT,
            env=self.environment("setup", 0),
            input=json.dumps(documents),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.keys = json.loads(done.stdout)

    def start(self, role: str, number: int) -> None:
        """Start one process, in a group of its own."""
        command = [sys.executable, "-m", "tests.acceptance.chaos.process", role, str(number), str(self.seed)]
        with (self.data_dir / f"{role}.log").open("ab") as log:
            self.running[role, number] = subprocess.Popen(
                command, cwd=ROOT, env=self.environment(role, number), stdout=log, stderr=log, start_new_session=True
            )

    def wait_for_server(self) -> None:
        """Return once the server is ready."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/health/ready", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(f"the server did not become ready\n{self.logs()}")

    def run(self, seconds: float) -> dict[str, int]:
        """Let everything run for so long, and do harm to it. Returns how often of what."""
        self.start("server", 0)
        self.wait_for_server()
        begin = time.monotonic()
        self.until_s = begin + seconds
        for role, number in [*TARGETS, ("prober", 0)]:
            self.start(role, number)
        pending = self.plan(seconds)
        done: dict[str, int] = {}
        while pending:
            moment, what, target = pending.pop(0)
            time.sleep(max(0.0, begin + moment - time.monotonic()))
            name = f"{what} {target[0]}"
            done[name] = done.get(name, 0) + 1
            if what == "clock":
                clock.set_off(self.clock, target[1])
            elif what == "continue":
                self.signal(target[1], signal.SIGCONT)
            elif what == "stop":
                pid = self.pid(target)
                self.signal(pid, signal.SIGSTOP)
                pending = sorted([*pending, (moment + STOP_S, "continue", ("process", pid))])
            elif target[0] == "api-worker":
                self.signal(self.pid(target), signal.SIGKILL)  # the server's master starts another
            else:
                self.kill(*target)
                self.start(*target)
        return done

    def plan(self, seconds: float) -> list[tuple[float, str, tuple[str, int]]]:
        """Draw what happens when. The clock goes an hour on, back, an hour back, right, and at last an hour on."""
        rng, first, last = self.rng, 1.5, seconds - STOP_S - 1

        def some(each_s: float) -> list[float]:
            return [rng.uniform(first, last) for _ in range(max(2, round(seconds / each_s)))]

        plan: list[tuple[float, str, tuple[str, int]]] = []
        plan += [(moment, "kill", rng.choice(TARGETS)) for moment in some(1.5)]
        plan += [(moment, "kill", ("api-worker", 0)) for moment in some(8)]
        plan += [(moment, "kill", ("server", 0)) for moment in some(15)]
        plan += [(moment, "stop", rng.choice([*TARGETS, ("api-worker", 0)])) for moment in some(6)]
        rounds = max(1, round(seconds / 30))
        for number in range(rounds):
            begin, length = number * seconds / rounds, seconds / rounds
            steps = ((0.2, HOUR_MS), (0.4, 0), (0.6, -HOUR_MS), (0.8, 0))
            plan += [(begin + part * length, "clock", ("set", off)) for part, off in steps]
        plan.append((seconds, "clock", ("set", HOUR_MS)))  # what was given while it was ahead may end
        return sorted(plan)

    def pid(self, target: tuple[str, int]) -> int:
        """Return the process to harm; one of the server's children where an API worker is meant."""
        if target[0] != "api-worker":
            return self.running[target].pid
        server = self.running["server", 0].pid
        children: list[str] = []
        while not children:  # it has just been started: its master, once killed, would be started by nobody
            time.sleep(0.05)
            children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        return int(self.rng.choice(children))

    @staticmethod
    def signal(pid: int, number: signal.Signals) -> None:
        """Send a signal; whoever is gone already needs none."""
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return

    def kill(self, role: str, number: int) -> None:
        """SIGKILL the process with everything it has started."""
        process = self.running[role, number]
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def end_all(self) -> None:
        """SIGTERM everything, and kill what does not end within 15 seconds."""
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for (role, number), process in self.running.items():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill(role, number)

    def ask_database(self, statement: str) -> dict[str, Any]:
        """Return the rows of two columns."""
        if self.database_url:
            with psycopg.connect(self.database_url) as server:
                return dict(server.execute(statement).fetchall())
        path = self.data_dir / "control.sqlite3"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return dict(database.execute(statement))

    def states(self) -> dict[str, str]:
        """Return the state of each workload."""
        return self.ask_database("SELECT workload_id, state FROM workloads_workload")

    def logs(self) -> str:
        """Return the end of every log."""
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.data_dir.glob("*.log"))
        )
