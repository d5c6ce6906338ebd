"""What the journals say, and whether it is what was promised."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.chaos.journal import entries


@dataclass(frozen=True)
class Account:
    """Of every process that ever lived."""

    asked: int  # changes that writers asked for
    unanswered: int  # of them, those that no life of the writer was told the end of
    expected: set[tuple[str, str]]  # (trigger, change) that was acknowledged and matches
    runs: list[dict[str, Any]]  # of the program
    claims: list[dict[str, Any]]
    accepted: list[dict[str, Any]]  # reports of workers
    refused: list[dict[str, Any]]
    probes: list[dict[str, Any]]
    failures: list[dict[str, Any]]  # answers that a writer should never get

    @classmethod
    def of(cls, journals: Path) -> "Account":
        """Read the journals."""
        reports = list(entries(journals, "worker"))
        writers = list(entries(journals, "writer"))
        asked = {(e["operation"]["id"], e["count"]) for e in writers if e["what"] == "asking"}
        answered = [e for e in writers if e["what"] == "acknowledged"]
        return cls(
            asked=len(asked),
            unanswered=len(asked) - len({e["change"] for e in answered}),
            expected={(e["trigger"], e["change"]) for e in answered if e["trigger"]},
            runs=list(entries(journals, "program")),
            claims=[e for e in reports if e["what"] == "claimed"],
            accepted=[e for e in reports if e["what"] == "accepted"],
            refused=[e for e in reports if e["what"] == "refused"],
            probes=list(entries(journals, "prober")),
            failures=[e for e in writers if e["what"] == "failed"],
        )

    @property
    def workloads(self) -> dict[tuple[str, str], set[str]]:
        """The workloads that ran for each (trigger, change)."""
        found = defaultdict(set)
        for run in self.runs:
            found[run["trigger"], run["change"]].add(run["workload"])
        return found

    @property
    def successes(self) -> dict[str, set[int]]:
        """The tokens whose completion was accepted, for each workload."""
        found = defaultdict(set)
        for report in self.accepted:
            if report["call"] == "complete":
                found[report["workload"]].add(report["token"])
        return found

    def stale_accepted(self) -> list[dict[str, Any]]:
        """Reports asked after a later claim of the same work had been given, and accepted all the same.

        A success told again after a lost answer, under the token that made it, is no stale word.
        """
        given = defaultdict(list)
        for claim in self.claims:
            given[claim["workload"]].append((claim["token"], claim["at_ns"]))
        return [
            report
            for report in self.accepted
            if any(token > report["token"] and at_ns < report["asked_ns"] for token, at_ns in given[report["workload"]])
        ]

    def __str__(self) -> str:
        codes: dict[str, int] = {}
        for probe in self.probes:
            codes[str(probe["code"])] = codes.get(str(probe["code"]), 0) + 1
        return (
            f"{self.asked} changes asked for, {len(self.expected)} of them matching, {len(self.runs)} runs, "
            f"{len(self.claims)} claims, {len(self.refused)} reports refused, {len(self.probes)} wrong words: {codes}"
        )
