"""The account at the end: what the table says must be there, against what the API says is there."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpx

from demo.flights import COLLECTION

THRESHOLD_MINUTES = 120


def is_late(value: dict[str, Any]) -> bool:
    """Whether the trigger must fire for this flight."""
    return value["arr_delay"] is not None and value["arr_delay"] > THRESHOLD_MINUTES


@dataclass(frozen=True, kw_only=True)
class Account:
    """What was found, and every difference from what must be there; exact when there is none."""

    records: int
    workloads: int
    states: dict[str, int]
    differences: tuple[str, ...]


def pages(client: httpx.Client, path: str, member: str, **query: Any) -> Iterable[dict[str, Any]]:
    """Yield every item of a paged list."""
    cursor = None
    while True:
        answer = client.get(path, params={**query, "limit": 1000, **({"cursor": cursor} if cursor else {})})
        answer.raise_for_status()
        body = answer.json()
        yield from body[member]
        cursor = body["next_cursor"]
        if cursor is None:
            return


def take_account(client: httpx.Client, expected: dict[str, dict[str, Any]], application_id: str) -> Account:
    """Read every record and every workload back and compare them with `expected`, one by one."""
    differences: list[str] = []
    seen = set()
    written_by: dict[int, str] = {}
    for record in pages(client, f"/collections/{COLLECTION}", "records"):
        seen.add(record["id"])
        written_by[record["sequence"]] = record["id"]
        if expected.get(record["id"]) != record["value"]:
            differences.append(f"record {record['id']} differs from the table")
    differences.extend(f"record {missing} is missing" for missing in expected.keys() - seen)
    sources: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for workload in pages(client, "/workloads", "workloads", application_id=application_id):
        states[workload["state"]] += 1
        sequence = int(workload["idempotency_key"].rpartition(":")[2])
        sources[written_by.get(sequence, f"change {sequence}")] += 1
        if workload["state"] != "SUCCEEDED":
            differences.append(f"{workload['workload_id']} is {workload['state']}, not SUCCEEDED")
    late = {name for name, value in expected.items() if is_late(value)}
    differences.extend(f"{name} has {count} workloads, not 1" for name, count in sources.items() if count != 1)
    differences.extend(f"late flight {name} has no workload" for name in late - sources.keys())
    differences.extend(f"flight {name} was not late but has a workload" for name in sources.keys() - late)
    return Account(
        records=len(seen), workloads=sum(states.values()), states=dict(states), differences=tuple(sorted(differences))
    )
