"""A worker over HTTP with a key of its own, as a team would write one in another language, and a suspicious one.

It asks for every report until it is answered. Of what was accepted it says some again: the same report must get the
same answer, another one under the same or another result id must be refused; what is not so goes to the journal of the
probers, where nothing may ever be accepted.
"""

import os
import random
import signal
import threading
import time
from typing import Any

import httpx

from tests.acceptance.chaos.asking import client, until_answered
from tests.acceptance.chaos.journal import Journal

LEASE_MS = 2_000


class Remote:
    """One life of one remote worker."""

    def __init__(self, number: int, http: httpx.Client) -> None:
        self.worker_id = f"remote-{number}"
        self.http = http
        self.reports, self.program, self.probes = Journal("worker"), Journal("program"), Journal("prober")

    def claim(self) -> list[dict[str, Any]]:
        """Wait a moment for work."""
        body = {"worker_id": self.worker_id, "capabilities": ["chaos.record"], "max": 2}
        answer = until_answered(self.http, "/v1/workloads/claim", {**body, "lease_ms": LEASE_MS, "wait_ms": 500})
        answer.raise_for_status()
        claims: list[dict[str, Any]] = answer.json()["claims"]
        for claim in claims:
            fence = {name: claim[name] for name in ("workload_id", "claim_id", "fencing_token")}
            fence |= {"namespace": "default", "worker_id": self.worker_id, "principal": "remote"}
            told = {"workload": claim["workload_id"], "token": claim["fencing_token"]}
            self.reports.write("claimed", fence=fence, **told)
        return claims

    def run(self, claim: dict[str, Any], rng: random.Random) -> None:
        """Start, run, and report until there is an answer."""
        if not self.report(claim, "start"):
            return
        provenance = claim["input"]["provenance"]
        self.program.write(
            "ran",
            force=True,
            trigger=provenance["trigger_id"],
            change=provenance["source_change_id"],
            workload=claim["workload_id"],
            token=claim["fencing_token"],
        )
        time.sleep(rng.uniform(0, 0.2))
        if rng.random() < 0.3 and not self.report(claim, "heartbeat", extend_ms=LEASE_MS):
            return
        success = {
            "result_id": f"result_{claim['workload_id']}_{claim['fencing_token']}",
            "output": {"change": provenance["source_change_id"]},
        }
        if self.report(claim, "complete", **success) and rng.random() < 0.3:
            self.doubt(claim, success)

    def report(self, claim: dict[str, Any], call: str, **members: Any) -> bool:
        """Say something of the claim; tell whether it was accepted."""
        asked_ns = time.monotonic_ns()
        answer = self.ask(claim, call, members)
        told = {"call": call, "workload": claim["workload_id"], "token": claim["fencing_token"], "asked_ns": asked_ns}
        code = None if answer.is_success else answer.json()["code"]
        # Started already: its answer was lost, and this is the second time it asked.
        accepted = answer.is_success or (call == "start" and code == "WORKLOAD_TRANSITION_DENIED")
        self.reports.write("accepted" if accepted else "refused", code=code, **told)
        return accepted

    def ask(self, claim: dict[str, Any], call: str, members: dict[str, Any]) -> httpx.Response:
        """Ask until there is an answer."""
        fence = {"worker_id": self.worker_id, "claim_id": claim["claim_id"], "fencing_token": claim["fencing_token"]}
        return until_answered(self.http, f"/v1/workloads/{claim['workload_id']}/{call}", {**fence, **members})

    def doubt(self, claim: dict[str, Any], success: dict[str, Any]) -> None:
        """Say it twice, and otherwise."""
        told = {"workload": claim["workload_id"], "token": claim["fencing_token"]}
        again = self.ask(claim, "complete", success)
        if not again.is_success:
            self.probes.write("accepted", call="the same report got another answer", code=again.text, **told)
        for call, members in (
            ("complete", {**success, "output": {"change": "another"}}),
            ("complete", {**success, "result_id": success["result_id"] + "_b"}),
            ("fail", {"kind": "execution_error", "error": "after its success"}),
            ("start", {}),
        ):
            answer = self.ask(claim, call, members)
            refused = 400 <= answer.status_code < 500
            code = answer.json()["code"] if refused else None
            self.probes.write("refused" if refused else "accepted", call=f"{call} after success", code=code, **told)


def play(number: int, seed: int) -> None:
    """Work until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda signum, frame: stop.set())
    rng = random.Random(f"{seed}-remote-{number}-{os.getpid()}")
    with client(os.environ[f"CHAOS_REMOTE_KEY_{number}"]) as http:
        one = Remote(number, http)
        while not stop.is_set():
            for claim in one.claim():
                one.run(claim, rng)
