"""Makes a golden directory: `python -m tests.engine.golden tests/engine/golden-<format>`, once per released format.

It holds what is never made again (manifest and log, trailing zeroes left out) and `expected.json`, what a reader must
find.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from feltdb_engine import Actor, Store
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
    (target / "log").mkdir(parents=True)
    shutil.copyfile(work / "copy" / "manifest.json", target / "manifest.json")
    for segment in (work / "copy" / "log").iterdir():
        (target / "log" / segment.name).write_bytes(segment.read_bytes().rstrip(b"\0") + bytes(128))
    (target / "expected.json").write_bytes(orjson.dumps(expected))
    shutil.rmtree(work)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
