"""`python -m benchmarks.triggers`: how fast changes become work, beside the reference, idle triggers and history.

Everything in one run on one database that forces each commit (SQLite, or the PostgreSQL server of --postgres). Slices
take turns: so many changes, one in ten matching one of 10 triggers, are evaluated in a namespace of only these
triggers, in one that has 1,000 more on other collections, and by the Rust reference if it is built. Then the same
again after --history changes that match nothing were written and evaluated, with the plans of what a round asks.
Each of these evaluations reads all triggers first. A running evaluator keeps them, and is measured apart: passes over
1, 10, 100 and 1,000 changes, in both namespaces by turns.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.database import Reference, instance, plans, settle

TRIGGERS = 10
IDLE = 1_000
PASSES = 21


def main() -> None:
    """Read the options, measure over an instance that is thrown away, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.triggers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=10_000, help="changes of one slice (default 10,000)")
    parser.add_argument("--rounds", type=int, default=3, help="slices of each (default 3)")
    parser.add_argument("--history", type=int, default=1_000_000, help="changes before the last slices; 0: none")
    parser.add_argument(
        "--postgres", default="", metavar="URL", help="measure on this server, in a database of its own"
    )
    options = parser.parse_args()
    with instance(options.postgres) as folder:
        measure(options, folder)


def measure(options: Any, folder: Path) -> None:
    """Define the triggers, then let the contestants take turns."""
    from apps.keys.services import ensure_namespace

    alone, crowded = (ensure_namespace(name).name for name in ("alone", "crowded"))
    define(alone, TRIGGERS, "orders")
    define(crowded, TRIGGERS, "orders")
    began = time.perf_counter()
    define(crowded, IDLE, "others")
    print(f"{IDLE:,} more triggers were defined in {time.perf_counter() - began:.1f} s")
    settle()
    reference = Reference(folder) if Reference.there() else None
    contestants = [alone, crowded, *(["reference"] if reference else [])]
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    evaluated(alone, -1, 1_000)
    evaluated(crowded, -1, 1_000)
    for number in range(options.rounds):
        for name in contestants[number % len(contestants) :] + contestants[: number % len(contestants)]:
            if name == "reference" and reference is not None:
                rate = reference.rate("evaluate", triggers=TRIGGERS, changes=options.changes)
            else:
                rate = evaluated(name, number, options.changes)
            rates[name].append(rate)
    show(rates, alone)
    kept(alone, crowded)
    if reference is not None:
        reference.end()
    if options.history:
        passed_by(alone, options.history)
        again = [evaluated(alone, 1_000 + number, options.changes) for number in range(options.rounds)]
        ratio = statistics.median(again) / statistics.median(rates[alone])
        print(
            f"after {options.history:,} more changes: {statistics.median(again):,.0f} changes/s, {ratio:.2f} of before"
        )
    store_of(crowded)
    load(crowded, "last", 100)
    print(f"one pass over 100 changes beside {IDLE:,} idle triggers:")
    plans(lambda: evaluate(crowded))


def show(rates: dict[str, list[float]], base: str) -> None:
    """Print each one's median, and the median of the rounds' ratios."""
    for name, each in rates.items():
        ratios = [mine / other for mine, other in zip(each, rates[base], strict=True)]
        print(f"{name}: {statistics.median(each):,.0f} changes/s, {statistics.median(ratios):.2f} of {base}")


def kept(alone: str, crowded: str) -> None:
    """Print what a pass costs an evaluator that runs on, beside idle triggers and without."""
    from apps.triggers.evaluation.walker import NamespaceWalker
    from apps.workloads.clock import now_ms

    walkers = {name: NamespaceWalker(name, clock=now_ms) for name in (alone, crowded)}
    for size in (1, 10, 100, 1_000):
        ratios = []
        for number in range(PASSES):
            seconds = {}
            for name in (alone, crowded) if number % 2 else (crowded, alone):
                store = store_of(name)
                load(name, f"kept-{size}-{time.perf_counter_ns()}", size)
                began = time.perf_counter()
                while walkers[name].step(store).more:
                    pass
                seconds[name] = time.perf_counter() - began
            ratios.append(seconds[crowded] / seconds[alone])
        print(f"a pass over {size:,} changes by an evaluator that runs on: {statistics.median(ratios):.2f} of {alone}")


def define(namespace: str, count: int, collection: str) -> None:
    """Define triggers that watch for a kind each; beyond ten, on a collection each."""
    from apps.keys.principal import operator
    from apps.triggers import services
    from apps.workloads.clock import now_ms

    by = operator("bench")
    for number in range(count):
        document = {
            "trigger_id": f"{collection}-{number}",
            "source_collection": collection if count <= TRIGGERS else f"{collection}-{number}",
            "change_kind": "insert",
            "predicate": {"field": "kind", "equals": f"k{number}"},
            "target_capability": "identity",
        }
        services.define(namespace, document, by=by, now_ms=now_ms())


def store_of(namespace: str) -> Any:
    """Return the namespace's store."""
    from apps.state import stores

    return stores.store(namespace)


def load(namespace: str, mark: str, changes: int, *, matching: bool = True) -> None:
    """Insert orders, one in ten of a kind that a trigger watches for."""
    from feltdb_engine import Mutation

    store = store_of(namespace)
    for begin in range(0, changes, 500):
        orders = []
        for n in range(begin, min(begin + 500, changes)):
            kind = f"k{n // 10 % TRIGGERS}" if matching and n % 10 == 0 else "-"
            orders.append(Mutation(kind="put", collection="orders", id=f"{mark}-{n}", value={"kind": kind, "n": n}))
        store.commit(orders)


def evaluated(namespace: str, number: int, changes: int) -> float:
    """Load changes, then evaluate them; return changes a second of the latter."""
    load(namespace, f"r{number}", changes)
    began = time.perf_counter()
    made = evaluate(namespace)
    seconds = time.perf_counter() - began
    assert made == -(-changes // 10)
    return changes / seconds


def evaluate(namespace: str) -> int:
    """Evaluate all there is; return how much work was made."""
    from apps.triggers import services
    from apps.workloads.clock import now_ms

    return len(services.evaluate_namespace(namespace, now_ms=now_ms()))


def passed_by(namespace: str, changes: int) -> None:
    """Write and evaluate changes that match nothing."""
    began = time.perf_counter()
    load(namespace, "history", changes, matching=False)
    written = time.perf_counter()
    assert evaluate(namespace) == 0
    rate = changes / (time.perf_counter() - written)
    print(f"{changes:,} changes that match nothing: written in {written - began:.0f} s, evaluated at {rate:,.0f}/s")


if __name__ == "__main__":
    main()
