"""Real input, real processes, killed in the middle: 10,000 flights, and an account that must come out exact.

Cost: about a minute. Server and workers are killed with SIGKILL while the import and the work go on.
"""

import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo import __main__ as story
from demo.account import is_late, take_account
from demo.flights import COLLECTION, flights
from demo.instance import Instance

pytestmark = pytest.mark.acceptance
ROWS = 10_000
TRANSACTION = 100
KILLS = 4


def send_until_answered(client: httpx.Client, number: int, batch: list[tuple[str, dict[str, Any]]]) -> bool:
    """Send one transaction until it is answered, always under the same id; return whether it had landed before."""
    body = {
        "transactionId": f"flights-{number}",
        "operations": [{"collection": COLLECTION, "id": name, "value": value} for name, value in batch],
    }
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            answer = client.post("/transactions", json=body)
        except httpx.TransportError:
            time.sleep(0.1)
            continue
        if answer.status_code in (200, 201):
            duplicate: bool = answer.json()["duplicate"]
            return duplicate
        assert answer.status_code == 503, answer.text
        time.sleep(0.1)
    raise AssertionError("the transaction was never answered")


@pytest.mark.timeout(240)
def test_ten_thousand_flights_survive_kills_of_server_and_worker(tmp_path: Path) -> None:
    rows = dict(flights(ROWS))
    late = [name for name, value in rows.items() if is_late(value)]
    assert len(late) > 100
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with Instance(tmp_path / "data", FELTDB_APPS="demo") as instance:
        instance.start_server()
        instance.start_worker()
        key = instance.new_key(*story.SCOPES)
        finished = threading.Event()

        def kill_now_and_then() -> None:
            for _ in range(KILLS):
                if finished.wait(rng.uniform(0.5, 2.0)):
                    return
                instance.kill_server()
                instance.kill_workers()
                instance.start_worker()
                instance.start_server()

        with instance.client(key) as client:
            story.define_trigger(client)
            killer = threading.Thread(target=kill_now_and_then)
            killer.start()
            for number, batch in enumerate(story.batches(iter(rows.items()), TRANSACTION)):
                send_until_answered(client, number, batch)
                time.sleep(0.05)
            finished.set()
            killer.join()
            story.wait_for_work(client, len(late))
            account = take_account(client, rows, story.APPLICATION)
        assert account.differences == (), f"seed {seed}; {instance.last_log_lines(20)}"
        assert account.records == ROWS
        assert account.states == {"SUCCEEDED": len(late)}
