"""`python -m benchmarks.http`: FeltDB over HTTP with a key, beside views that do nothing, in slices taken in turn.

    read         one record by its id, of those loaded
    write        one new record, forced
    transaction  100 new records in one, forced
    query        20 records by an indexed field
    streams      reads once more while every place for a stream of events is taken (its p99 over the one without)

FeltDB and the bare views run under the same gunicorn configuration: in the same processes with all of FeltDB's
middleware, and as a project of their own without any. The reference server takes part where FELTDB_REFERENCE_SERVER
names its binary. Each request of every slice must succeed. Needs wrk (Debian's package).
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.http import streams
from benchmarks.http.servers import REFERENCE, Bare, Felt, Reference, Target
from benchmarks.report import Sample, report

ROWS = {"read": "requests/s", "write": "records/s", "transaction": "records/s", "query": "requests/s"}
RECORDS_OF = {"transaction": 100}
SCRIPT = Path(__file__).parent / "load.lua"


def main() -> None:
    """Read the options, start the servers, run the rows, print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.http", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=10_000, help="records loaded first (default 10,000)")
    parser.add_argument("--rounds", type=int, default=5, help="slices of each row (default 5)")
    parser.add_argument("--seconds", type=int, default=1, help="length of a slice (default 1)")
    parser.add_argument("--connections", type=int, default=4, help="clients at once (default 4)")
    parser.add_argument("--processes", type=int, default=2, help="gunicorn's processes (default 2)")
    parser.add_argument("--only", default=",".join([*ROWS, "streams"]), help="rows (default all)")
    options = parser.parse_args()
    rows = options.only.split(",")
    if not set(rows) <= {*ROWS, "streams"}:
        parser.error(f"rows are {', '.join([*ROWS, 'streams'])}")
    if shutil.which("wrk") is None:
        parser.error("wrk is not on the PATH; install Debian's package wrk")
    scratch = Path(tempfile.mkdtemp(prefix="feltdb-bench-"))
    samples: list[Sample] = []
    try:
        with contextlib.ExitStack() as stack:
            felt = stack.enter_context(Felt(scratch / "felt", options.processes))
            servers: list[Felt | Bare | Reference] = [felt]
            servers.append(stack.enter_context(Bare(scratch / "bare", options.processes)))
            felt.load(options.records)
            binary = os.environ.get(REFERENCE)
            if binary:
                reference = stack.enter_context(Reference(scratch / "reference", binary))
                reference.load(options.records)
                servers.append(reference)
            targets = [target for server in servers for target in server.targets()]
            for row in (row for row in rows if row in ROWS):
                print(f"{row} ...", file=sys.stderr, flush=True)
                samples += alternated(row, targets, options)
            if "streams" in rows:
                print("streams ...", file=sys.stderr, flush=True)
                print(beside_streams(felt, targets[0], options))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if samples:
        print(report(samples, [target.name for target in targets]))
        print(f"\n{options.connections} clients, {options.processes} processes; medians of {options.rounds} slices.")


def alternated(row: str, targets: list[Target], options: argparse.Namespace) -> list[Sample]:
    """Give each contestant a slice in turn, each round beginning with another; the first round only warms."""
    samples = []
    for number in range(options.rounds + 1):
        first = number % len(targets)
        for target in targets[first:] + targets[:first]:
            figures = slice_of(row, target, options, seed=f"{number}{len(samples)}")
            if number:
                made = figures["requests"] * RECORDS_OF.get(row, 1) / figures["seconds"]
                samples.append(Sample(row, ROWS[row], target.name, number, made))
                samples.append(Sample(f"{row}, p99", "ms", target.name, number, figures["p99_ms"]))
    return samples


def slice_of(row: str, target: Target, options: argparse.Namespace, *, seed: str) -> dict[str, float]:
    """Load one contestant for a slice. Raises RuntimeError where a request failed."""
    command = ["wrk", "-t1", f"-c{options.connections}", f"-d{options.seconds}s", "--timeout", "10s", "-s", str(SCRIPT)]
    command += [target.url, "--", row, target.prefix, target.key or "-", str(options.records), seed]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if figures["failed"] or not figures["requests"]:
        raise RuntimeError(f"{target.name}: requests failed: {done.stdout}")
    return figures


def beside_streams(felt: Felt, target: Target, options: argparse.Namespace) -> str:
    """Return what reads cost while every place for a stream is taken and many more are asked for."""
    alone, beside, served = [], [], 0
    for number in range(options.rounds):
        alone.append(slice_of("read", target, options, seed=f"9{number}"))
        with streams.asked(felt.instance.port, [felt.key, felt.instance.new_key("events:read")]) as opened:
            served = opened.served
            beside.append(slice_of("read", target, options, seed=f"8{number}"))

    def ratio(name: str) -> float:
        return statistics.median(b[name] / a[name] for a, b in zip(alone, beside, strict=True))

    return (
        f"{streams.ASKED:,} streams asked for, {served} served: reads beside them have {ratio('p99_ms'):.2f} of the "
        f"p99 and {ratio('requests'):.2f} of the rate without any"
    )


if __name__ == "__main__":
    main()
