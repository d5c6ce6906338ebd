"""Makes a golden directory: `python -m tests.engine.golden tests/engine/golden-<format>`, once per released format.

It holds what is never made again (manifest, log, snapshots; trailing zeroes left out) and `expected.json`, what a
reader must find.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from feltdb_engine import Actor, Retention, Store
from tests.engine.kit import boot, delete, operations, put, vanish


def told(store: Store) -> list[dict[str, Any]]:
    """The whole feed as JSON values."""
    names = ("sequence", "instance_id", "transaction_id", "kind", "key", "version", "previous_version")
    return [
        {name: getattr(one, name) for name in names}
        | {"value": one.value, "content_hash": one.content_hash, "at_ms": one.at_ms, "subject": one.actor.subject}
        for one in operations(store)
    ]


def make(target: Path) -> None:
    """Every kind of frame and operation, over three segments, two timelines and a recovery."""
    work = Path(tempfile.mkdtemp())
    store = Store.open(work / "s", segment_bytes=1 << 16, host=boot(1))
    actor = Actor(subject="service:import", key_id="k1", request_id="r1")
    store.commit([put("items:1", {"n": 1, "f": 1.0, "t": "ä"})], transaction_id="first", actor=actor, at_ms=1_000)
    store.commit(
        [put("items:1", {"f": None, "m": [1, {}]}, kind="merge"), delete("items:9")], transaction_id="noop", at_ms=2_000
    )
    store.commit([delete("items:1"), put("other.things:x:y", {"big": (1 << 64) - 1})], at_ms=1_500)
    store.commit([put("items:1", {"again": True}, kind="insert")], at_ms=3_000)
    for number in range(16):
        store.commit([put(f"bulk:{number}", {"body": "x" * 9_000})], at_ms=4_000)
    written = store.health().written
    vanish(store)
    segment = sorted((work / "s" / "log").iterdir())[-1]
    with segment.open("r+b") as log:
        log.seek(written % (1 << 16))
        log.write(b"torn tail")
    shutil.copytree(work / "s", work / "copy")
    with Store.open(work / "copy", host=boot(2)) as copy:
        copy.acknowledge_recovery()
        copy.commit([put("items:2", {"on": "the second timeline"})], transaction_id="last", at_ms=5_000)
        expected = {
            "store_id": copy.store_id,
            "instance_id": copy.instance_id,
            "feed": told(copy),
            "versions": list(copy.transaction("noop").versions),  # type: ignore[union-attr]
            "collections": {one.name: one.records for one in copy.collections()},
        }
    keep(work / "copy", target, expected)
    shutil.rmtree(work)


def make_compacted(target: Path) -> None:
    """Format 1: a log that begins at a floor, two snapshots it reaches, pins, forgotten ids and tombstones."""
    work = Path(tempfile.mkdtemp())
    with Store.open(work / "s", segment_bytes=1 << 16, host=boot(1)) as store:
        store.declare_index("items", ["n"])
        store.commit([put("items:gone", {"n": 0}), put("items:here", {"n": 1})], transaction_id="first", at_ms=1_000)
        store.commit([delete("items:gone")], transaction_id="second", at_ms=2_000)
        for number in range(10):
            store.commit([put(f"bulk:{number}", {"body": "x" * 9_000})], transaction_id=f"b{number}", at_ms=3_000)
        few = Retention(age_ms=0, ids_age_ms=0, ids_count=6)
        store.compact(few, now_ms=10_000)
        for number in range(12):
            store.commit([put(f"bulk:{number % 10}", {"body": "y" * 9_000})], transaction_id=f"c{number}", at_ms=20_000)
        store.pin("for-ever", store.head().sequence - 3, None)
        store.pin("until", store.head().sequence, 1 << 52)
        store.compact(Retention(age_ms=None), now_ms=30_000)
        store.commit([put("items:here", {"n": 7}), delete("bulk:9")], transaction_id="last", at_ms=40_000)
        expected = {
            "store_id": store.store_id,
            "instance_id": store.instance_id,
            "feed": told(store),
            "head": store.head().sequence,
            "floor": store.health().floor,
            "snapshot": store.health().snapshot,
            "pins": [[one.name, one.sequence, one.expires_at_ms] for one in store.pins(now_ms=0)],
            "collections": {one.name: one.records for one in store.collections()},
            "known": [name for name in ids() if store.transaction(name)],
        }
    keep(work / "s", target, expected)
    shutil.rmtree(work)


def ids() -> list[str]:
    """The transaction ids a compacted store was given."""
    return ["first", "second", *(f"b{number}" for number in range(10)), *(f"c{number}" for number in range(12)), "last"]


def keep(store: Path, target: Path, expected: dict[str, Any]) -> None:
    """The parts of a store that are never made again."""
    (target / "log").mkdir(parents=True)
    shutil.copyfile(store / "manifest.json", target / "manifest.json")
    for segment in (store / "log").iterdir():
        data = segment.read_bytes().rstrip(b"\0")
        if data:
            (target / "log" / segment.name).write_bytes(data + bytes(128))
    if (store / "snapshots").exists():
        shutil.copytree(store / "snapshots", target / "snapshots")
    (target / "expected.json").write_bytes(orjson.dumps(expected))


if __name__ == "__main__":
    {"golden-0": make, "golden-1": make_compacted}[Path(sys.argv[1]).name](Path(sys.argv[1]))
