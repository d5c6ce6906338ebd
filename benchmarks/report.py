"""From samples to a table of medians and ratios."""

import statistics
from typing import NamedTuple


class Sample(NamedTuple):
    """One figure of one contestant in one round. `unit` says what it counts."""

    work: str
    unit: str
    name: str
    round: int
    figure: float


def report(samples: list[Sample], names: list[str]) -> str:
    """Return a Markdown table: each contestant's median, and ours over theirs as the median of the rounds' ratios."""
    ours, peers = names[0], names[1:]
    lines = [
        "| work | unit | " + " | ".join(names) + " | " + " | ".join(f"/ {peer}" for peer in peers) + " |",
        "|---" * (2 + len(names) + len(peers)) + "|",
    ]
    for work, unit in dict.fromkeys((sample.work, sample.unit) for sample in samples):
        found: dict[str, dict[int, float]] = {name: {} for name in names}
        for sample in samples:
            if (sample.work, sample.unit) == (work, unit):
                found[sample.name][sample.round] = sample.figure
        cells = [f"{statistics.median(one.values()):,.4g}" if one else "" for one in found.values()]
        for peer in peers:
            pairs = [(found[ours][n], found[peer][n]) for n in found[ours].keys() & found[peer].keys()]
            ratios = [mine / theirs for mine, theirs in pairs if theirs]
            cells.append(f"{statistics.median(ratios):.2f}" if ratios else "")
        lines.append(f"| {work} | {unit} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
