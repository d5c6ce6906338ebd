"""A client that writes orders, half of them paid, and is killed: its successor goes on from the journal.

Before it asks, it writes down what (forced); so whoever comes after it asks for the last change again under the same
id, as a client with a durable outbox does. Trouble with an answer that is no refusal for now is a failure of the proof.
"""

import os
import random
import time
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.chaos.asking import client, until_answered
from tests.acceptance.chaos.journal import DIRECTORY_VARIABLE, Journal, entries

WRITES_PER_SECOND = 16.0


class Writer:
    """One writer over all its lives: what it has stored, and the number of its last change."""

    def __init__(self, number: int) -> None:
        self.role = f"writer-{number}-"
        self.alive: dict[str, dict[str, Any]] = {}
        self.count = 0
        folder = Path(os.environ[DIRECTORY_VARIABLE])
        lines = sorted(entries(folder, self.role), key=lambda line: line["at_ns"])
        for line in lines:
            if line["what"] == "asking":
                self._remember(line["operation"])
                self.count = line["count"]
        answered = {line["count"] for line in lines if line["what"] == "acknowledged"}
        self.unanswered = [line for line in lines if line["what"] == "asking" and line["count"] not in answered]
        self.journal = Journal(self.role)

    def _remember(self, operation: dict[str, Any]) -> None:
        if operation.get("delete"):
            self.alive.pop(operation["id"], None)
        else:
            self.alive[operation["id"]] = operation["value"]

    def next(self, rng: random.Random) -> dict[str, Any]:
        """Think of the next change, and write down that it will be asked for."""
        self.count += 1
        roll, trigger = rng.random(), None
        key = rng.choice(sorted(self.alive)) if self.alive and roll < 0.25 else f"{self.role}{self.count}"
        operation: dict[str, Any] = {"collection": "orders", "id": key}
        old = self.alive.get(key)
        if old is None:
            operation |= {
                "value": {"status": rng.choice(["paid", "draft"]), "n": self.count},
                "requireAbsent": True,
            }
            trigger = "paid-new" if operation["value"]["status"] == "paid" else None
        elif roll < 0.1:
            operation["delete"] = True
            trigger = "paid-gone" if old["status"] == "paid" else None
        else:
            operation["value"] = {**old, "touched": self.count}
        line = {"count": self.count, "operation": operation, "trigger": trigger}
        self.journal.write("asking", force=True, **line)
        self._remember(operation)
        return line

    def ask(self, http: httpx.Client, line: dict[str, Any]) -> None:
        """Have the change made, and write down that it was."""
        body = {"transactionId": f"{self.role}{line['count']}", "operations": [line["operation"]]}
        answer = until_answered(http, "/v1/transactions", body)
        if answer.status_code not in (200, 201):
            self.journal.write("failed", force=True, status=answer.status_code, text=answer.text)
            raise AssertionError(f"{answer.status_code}: {answer.text}")
        change = str(answer.json()["operationIds"][0]).removeprefix("operation:")
        told = {"count": line["count"], "trigger": line["trigger"], "change": change}
        self.journal.write("acknowledged", force=True, **told)


def play(number: int, seed: int) -> None:
    """Write until it is time to end, having first asked again for what was left unanswered."""
    one = Writer(number)
    rng = random.Random(f"{seed}-writer-{number}-{one.count}")
    until_s = float(os.environ["CHAOS_UNTIL_S"])
    with client(os.environ["CHAOS_KEY"]) as http:
        for line in one.unanswered:
            one.ask(http, line)
        while time.monotonic() < until_s:
            one.ask(http, one.next(rng))
            time.sleep(rng.uniform(0, 2 / WRITES_PER_SECOND))
