"""`python -m benchmarks`: the engine beside its peers at one job, in slices taken in turn; prints ratios.

Each contestant has a process and a store of its own. Row by row they take turns in short slices, each round in another
order, and a ratio is the median of the rounds' ratios: what the machine does meanwhile meets all of them.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.contestants import GUARANTEES, available
from benchmarks.report import Sample, report
from benchmarks.rows import ROWS, Arena


def main() -> None:
    """Read the options, run the rows, print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=100_000, help="records loaded first (default 100,000)")
    parser.add_argument("--rounds", type=int, default=5, help="slices of each row (default 5)")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a slice (default 0.4)")
    parser.add_argument("--only", default=",".join(ROWS), help=f"rows, of {', '.join(ROWS)} (default all)")
    parser.add_argument("--contestants", default=",".join(available()), help="the first is compared with the rest")
    parser.add_argument("--folder", type=Path, default=None, help="where the stores lie (default: a temporary folder)")
    parser.add_argument("--json", type=Path, default=None, help="also write every figure of every slice here")
    options = parser.parse_args()
    names, rows = options.contestants.split(","), options.only.split(",")
    for what, asked, known in (("contestant", names, available()), ("row", rows, ROWS)):
        if not set(asked) <= set(known):
            parser.error(f"unknown {what} {', '.join(set(asked) - set(known))}; known: {', '.join(known)}")
    scratch = Path(tempfile.mkdtemp(dir=options.folder, prefix="feltdb-bench-"))
    samples: list[Sample] = []
    try:
        arena = Arena(scratch, names, options.records, options.rounds, options.seconds)
        for row in rows:
            print(f"{row} ...", file=sys.stderr, flush=True)
            samples += ROWS[row](arena)
        arena.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(report(samples, names))
    print(f"\n{options.records:,} records; medians of {options.rounds} slices. Above 1: FeltDB is faster, or larger.\n")
    print("\n".join(f"{name}: {GUARANTEES[name]}" for name in names))
    if options.json:
        options.json.write_text(json.dumps([sample._asdict() for sample in samples], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
