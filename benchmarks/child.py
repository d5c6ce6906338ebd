"""One contestant in a process of its own: a JSON request per line comes in, a JSON answer per line goes out.

    python -m benchmarks.child CONTESTANT FOLDER INDEXED NUMBER RECORDS

    {"do": "load", "first": 0, "last": 10000}    {"do": "get", "seconds": 0.4}    {"do": "open"}    {"do": "memory"}

The first line it says is `{}`, once everything is imported; the store opens at the first request.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks import shapes
from benchmarks.contestants import CONTESTANTS
from benchmarks.data import picks, record_id


def own_memory_mb() -> float:
    """Return what this process has in memory that no other shares (anonymous pages), in MB."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1000
    return 0.0


def main() -> None:
    """Serve until the input ends."""
    name, folder, indexed, number, records = sys.argv[1:]
    say({})
    before = own_memory_mb()
    session: shapes.Session | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        if session is None:
            started = time.perf_counter()
            store = CONTESTANTS[name](Path(folder), indexed == "1")
            session = shapes.Session(store, int(records), int(number))
            if asked["do"] == "open":
                store.get(record_id(1))
                say({"ms": 1000 * (time.perf_counter() - started)})
                continue
        try:
            say(answer(session, asked, before))
        except NotImplementedError:
            say({})
    if session is not None:
        session.store.close()


def answer(session: shapes.Session, asked: dict[str, object], before: float) -> shapes.Figures:
    """Do what was asked; return its figures."""
    do = str(asked["do"])
    if do == "ready":
        return {}
    if do == "compact":
        return {"seconds": session.store.compact()}
    if do == "load":
        return shapes.load(session, int(str(asked["first"])), int(str(asked["last"])))
    if do == "memory":
        for n in picks(session.records, 20_000, 5):
            session.store.get(record_id(n))
        shapes.pages(session, 1.0)
        return {"mb": own_memory_mb() - before}
    return shapes.SHAPES[do](session, float(str(asked["seconds"])))


def say(figures: dict[str, float]) -> None:
    """Answer one line."""
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
