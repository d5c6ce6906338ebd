"""`python -m benchmarks`: the engine beside SQLite and LMDB, rounds alternated, medians and ratios printed."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.contestants import CONTESTANTS


def run_child(name: str, folder: Path, records: int, seconds: float) -> dict[str, float]:
    """Run one contestant's round in a new process and return its figures."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.child",
        "round",
        name,
        str(folder),
        str(records),
        str(seconds),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def table(rounds: list[dict[str, dict[str, float]]], names: list[str]) -> str:
    """Return a Markdown table: each contestant's median, and ours over theirs as the median of the rounds' ratios."""
    ours, peers = names[0], names[1:]
    lines = [
        "| work | " + " | ".join(names) + " | " + " | ".join(f"{ours}/{peer}" for peer in peers) + " |",
        "|---" * (1 + len(names) + len(peers)) + "|",
    ]
    for work in rounds[0][ours]:
        medians = [statistics.median(one[name][work] for one in rounds) for name in names]
        ratios = [statistics.median(one[ours][work] / one[peer][work] for one in rounds) for peer in peers]
        cells = [f"{figure:,.0f}" for figure in medians] + [f"{ratio:.2f}" for ratio in ratios]
        lines.append(f"| {work} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Read the options, run the rounds, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000, help="records loaded first (default 100,000)")
    parser.add_argument("--rounds", type=int, default=3, help="alternated rounds (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each timed shape (default 3)")
    parser.add_argument(
        "--contestants", default=",".join(CONTESTANTS), help="comma list; the first is compared with the rest"
    )
    parser.add_argument("--folder", type=Path, default=None, help="where the stores lie (default: a temporary folder)")
    parser.add_argument("--json", type=Path, default=None, help="also write every figure of every round here")
    options = parser.parse_args()
    names = options.contestants.split(",")
    unknown = set(names) - set(CONTESTANTS)
    if unknown:
        parser.error(f"unknown contestant {', '.join(sorted(unknown))}; known: {', '.join(CONTESTANTS)}")
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="feltdb-bench-") as scratch:
        for number in range(1, options.rounds + 1):
            figures: dict[str, dict[str, float]] = {}
            # Turn the order each round, so that a machine that slows down does not favour one.
            for name in names[number % len(names) :] + names[: number % len(names)]:
                print(f"round {number} of {options.rounds}: {name}", file=sys.stderr, flush=True)
                figures[name] = run_child(name, Path(scratch) / name, options.records, options.seconds)
                shutil.rmtree(Path(scratch) / name, ignore_errors=True)
            rounds.append(figures)
    print(table(rounds, names))
    print(
        f"\nMedians of {options.rounds} alternated rounds, {options.records:,} records loaded first; "
        "ratios above 1 mean faster (for disk: larger)."
    )
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
