"""Load on a real server from a process of its own (`open_loop.py`), and the account of it: what was said must hold."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo.instance import ROOT, Instance

CLIENT_CORE, SERVER_CORE = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a client saw: seconds of each answer by status, and the ids of its transactions by what it was told."""

    took_s: float
    seconds: dict[str, list[float]]
    acknowledged: list[str]
    refused: list[str]
    unknown: list[str]
    unsent: int
    reconnected: int
    troubles: list[str]

    @property
    def rate(self) -> float:
        """Acknowledged transactions in a second."""
        return len(self.acknowledged) / self.took_s

    @property
    def sent(self) -> int:
        """Transactions that left the client."""
        return len(self.acknowledged) + len(self.refused) + len(self.unknown)

    def within_ms(self, status: str, part: float = 0.99) -> float:
        """The time that this part of the answers of that status stayed within; 1 for the slowest."""
        found = sorted(self.seconds.get(status, [0.0]))
        return found[int((len(found) - 1) * part)] * 1000


def load(instance: Instance, key: str, *, rate: float, seconds: float, connections: int) -> Load:
    """Send `rate` transactions a second (0: as fast as they are answered); the client has a core to itself."""
    script = str(Path(__file__).with_name("open_loop.py"))
    done = subprocess.run(
        ["taskset", "-c", str(CLIENT_CORE), sys.executable, script]
        + [str(each) for each in (instance.port, key, rate, seconds, connections)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds + 120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Load(**json.loads(done.stdout))


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Let this process, and what it starts meanwhile, run on that core alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def settle(instance: Instance, key: str, loads: Sequence[Load]) -> str:
    """Hold what clients were told against what is stored; return what differs, or nothing.

    Stored must be: all that was acknowledged, and of what is unknown exactly what the transaction id says is
    committed; nothing that was refused.
    """
    told = {name for each in loads for name in each.acknowledged}
    refused = {name for each in loads for name in each.refused}
    committed, kept = set(), set()
    with instance.client(key) as client:
        for name in (name for each in loads for name in each.unknown):
            answer = client.get(f"/transactions/{name}")
            assert answer.status_code in (200, 404), answer.text
            if answer.status_code == 200:
                assert answer.json()["status"] == "committed", answer.text
                committed.add(name)
        cursor = ""
        while cursor is not None:
            page = client.get("/collections/load", params={"limit": 1000, **({"cursor": cursor} if cursor else {})})
            assert page.status_code == 200, page.text
            kept |= {record["id"] for record in page.json()["records"]}
            cursor = page.json()["next_cursor"]
    wrong = {"lost": told - kept, "refused and stored": refused & kept, "open": (told | committed) ^ kept}
    return "; ".join(f"{len(names)} {what}: {sorted(names)[:3]}" for what, names in wrong.items() if names)
