"""The contestants, all at one job: versioned JSON records, an index on two fields and an ordered log of operations."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

from benchmarks.contestants.bare_lmdb import LMDB
from benchmarks.contestants.bare_log import BareLog
from benchmarks.contestants.base import Contestant
from benchmarks.contestants.engine import FeltDB
from benchmarks.contestants.rocks import RocksDB
from benchmarks.contestants.sqlite import SQLite

CONTESTANTS: dict[str, Callable[[Path, bool], Contestant]] = {
    "feltdb": FeltDB,
    "sqlite": SQLite,
    "lmdb": LMDB,
    "rocksdb": RocksDB,
    "bare log": BareLog,
}
# Not in Python, and so not in the table above: `reference/` speaks the same lines as `child.py`.
REFERENCE = "rust reference"
REFERENCE_PROGRAM = Path(__file__).parent.parent / "reference" / "target" / "release" / "feltdb-reference"

GUARANTEES: dict[str, str] = {
    "feltdb": "log forced before each answer; any number of processes; one consistent moment per read",
    "sqlite": "WAL forced at each commit (synchronous=FULL); any number of processes",
    "lmdb": "data and meta page forced at each commit; any number of processes",
    "rocksdb": "WAL forced at each commit; one process",
    "bare log": "a checksummed frame forced before each answer; no recovery, no view: the limit, not a peer",
    REFERENCE: "log forced at each commit; one process, all in its memory; no checksums",
}


def available() -> list[str]:
    """The contestants that can run here, ours first."""
    found = [name for name in CONTESTANTS if name != "rocksdb" or importlib.util.find_spec("rocksdict")]
    return [*found, REFERENCE] if REFERENCE_PROGRAM.exists() else found
