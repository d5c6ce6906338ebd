"""`python -m demo`: real flights in, late ones compensated, one made to die and retried, and an exact account."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
from feltdb_client import FeltDB, put

from demo.account import THRESHOLD_MINUTES, Account, is_late, take_account
from demo.flights import COLLECTION, DataMissing, flights
from demo.instance import Instance

APPLICATION = "airport"
SCOPES = (
    "state:read",
    "state:write",
    "events:read",
    "triggers:read",
    "triggers:write",
    "workload:create",
    "workload:read",
    "workload:retry",
)
WORK_TIMEOUT_SECONDS = 1800.0
FINAL_STATES = ("SUCCEEDED", "DEAD_LETTER", "CANCELLED")

Flight = tuple[str, dict[str, Any]]


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def batches(rows: Iterator[Flight], size: int) -> Iterator[list[Flight]]:
    """Cut the rows into lists of at most `size`."""
    while batch := list(islice(rows, size)):
        yield batch


def define_trigger(client: httpx.Client) -> None:
    """Define: when a flight is inserted with a delay above the threshold, compensate."""
    client.post(
        "/triggers",
        json={
            "trigger_id": "late-arrival",
            "source_collection": COLLECTION,
            "change_kind": "insert",
            "predicate": {"field": "arr_delay", "op": "gt", "value": THRESHOLD_MINUTES},
            "target_capability": "compensate_delay",
            "application_id": APPLICATION,
        },
    ).raise_for_status()


def import_flights(db: FeltDB, rows: Iterator[Flight], total: int, size: int) -> float:
    """Insert all rows in transactions of `size`, with progress; return records per second.

    Each transaction has an id of its own, under which the client sends it again when an answer is lost.
    """
    started = shown = time.monotonic()
    done = 0
    for number, batch in enumerate(batches(rows, size)):
        db.commit(
            [put(COLLECTION, name, value, create=True) for name, value in batch],
            transaction_id=f"flights-{size}-{number}",
        )
        done += len(batch)
        now = time.monotonic()
        if now - shown >= 2 or done == total:
            shown = now
            say(f"  {done:>7,} of {total:,} flights, {done / (now - started):,.0f} records/s")
    return done / (time.monotonic() - started)


def wait_for_work(client: httpx.Client, expected: int) -> float:
    """Wait, with progress, until `expected` workloads are finished or dead; return finished per second of waiting."""
    started = time.monotonic()
    first = count_finished(client)
    finished = first
    while finished < expected:
        if time.monotonic() - started > WORK_TIMEOUT_SECONDS:
            raise TimeoutError(f"only {finished:,} of {expected:,} workloads were finished in time")
        time.sleep(2)
        finished = count_finished(client)
        say(f"  {finished:>7,} of {expected:,} workloads finished")
    return (finished - first) / max(time.monotonic() - started, 0.001)


def count_finished(client: httpx.Client) -> int:
    """Return how many workloads of the application are in a final state or dead."""
    answer = client.get("/workloads/counts", params={"application_id": APPLICATION})
    answer.raise_for_status()
    states: dict[str, int] = answer.json()["states"]
    return sum(states.get(state, 0) for state in FINAL_STATES)


def retry_the_dead(client: httpx.Client) -> str:
    """Find the one dead letter, say why it died, mend the cause, retry it; return its id."""
    answer = client.get("/workloads", params={"application_id": APPLICATION, "state": "DEAD_LETTER"})
    answer.raise_for_status()
    (dead,) = answer.json()["workloads"]
    say(f"  {dead['workload_id']} died: {dead['last_failure']}")
    client.put("/collections/settings/compensation", json={"closed_for": None}).raise_for_status()
    client.post(
        f"/workloads/{dead['workload_id']}/retry", json={"reason": "the counter is open again"}
    ).raise_for_status()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if client.get(f"/workloads/{dead['workload_id']}").json()["state"] == "SUCCEEDED":
            return str(dead["workload_id"])
        time.sleep(0.2)
    raise TimeoutError(f"{dead['workload_id']} did not succeed after its retry")


def demonstrate(instance: Instance, rows: dict[str, dict[str, Any]], transaction_size: int) -> Account:
    """Run the whole story on a fresh instance and return the account."""
    late = [name for name, value in rows.items() if is_late(value)]
    instance.start_server()
    instance.start_worker()
    key = instance.new_key(*SCOPES)
    with instance.client(key) as client, FeltDB(instance.url, key) as db:
        say(f"Serving at {instance.url}.")
        say(f"{len(late):,} of {len(rows):,} flights came more than {THRESHOLD_MINUTES} minutes late.")
        db.put("settings", "compensation", {"closed_for": late[0]})
        define_trigger(client)
        say(f"Importing in transactions of {transaction_size}:")
        import_rate = import_flights(db, iter(rows.items()), len(rows), transaction_size)
        memory = instance.memory_bytes()
        say("Waiting for the work that the late ones called for:")
        work_rate = wait_for_work(client, len(late))
        say("One was made to die; retrying it:")
        retry_the_dead(client)
        say("Taking the account, every record and every workload:")
        account = take_account(client, rows, APPLICATION)
    say(f"  import     {import_rate:,.0f} records/s")
    say(f"  work       {work_rate:,.0f} workloads/s while only working")
    say("  memory     " + ", ".join(f"{name} {size / 2**20:,.0f} MiB" for name, size in memory.items()))
    say(f"  records    {account.records:,}    workloads {account.workloads:,} {account.states}")
    return account


def main() -> None:
    """Read the options, run the demonstration in its own data directory, exit 1 where the account is not exact."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--rows", type=int, default=None, help="only the first ROWS flights (default: all 336,776)")
    parser.add_argument("--transaction", type=int, default=500, help="records in one transaction (default 500)")
    parser.add_argument(
        "--data-dir", type=Path, default=None, help="keep the instance here (default: a temporary folder)"
    )
    options = parser.parse_args()
    try:
        rows = dict(flights(options.rows))
    except DataMissing as error:
        sys.exit(str(error))
    with tempfile.TemporaryDirectory(prefix="feltdb-demo-") as scratch:
        with Instance(options.data_dir or Path(scratch), FELTDB_APPS="demo") as instance:
            account = demonstrate(instance, rows, options.transaction)
    if account.differences:
        say(f"The account is NOT exact: {len(account.differences):,} differences, the first of them:")
        for difference in account.differences[:10]:
            say(f"  {difference}")
        sys.exit(1)
    say("The account is exact: every row once, one workload for every late flight, every workload finished once.")


if __name__ == "__main__":
    main()
