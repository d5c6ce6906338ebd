"""Pins and the floor in the view: what their frames change. `payload.py` has the layouts; called by `apply` alone."""

import orjson

from feltdb_engine import view
from feltdb_engine.frame import Chain
from feltdb_engine.view import COLLECTION, COLLECTION_PREFIX, FLOOR_KEY, NEVER, PIN, PIN_PREFIX, Floor, Transaction


def change_pins(txn: Transaction, content: bytes) -> None:
    """Apply a pin frame."""
    said = orjson.loads(content)
    for name in said["gone"] if said["act"] == "pin" else said["names"]:
        txn.delete(PIN_PREFIX + name.encode())
    if said["act"] == "pin":
        expires = NEVER if said["expires_at_ms"] is None else said["expires_at_ms"]
        txn.put(PIN_PREFIX + said["name"].encode(), PIN.pack(said["sequence"], expires))


def change_floor(txn: Transaction, content: bytes) -> None:
    """Apply a compaction frame. Floors only rise."""
    said = orjson.loads(content)
    if said["act"] == "versions":
        for name, version in said["floors"].items():
            live, last, floor = view.collection(txn, name.encode())
            txn.put(COLLECTION_PREFIX + name.encode(), COLLECTION.pack(live, last, max(floor, version)))
        return
    before, start = view.floor(txn), Chain(*said["floor"])
    after = Floor(
        max(before.start, start),
        max(before.forgotten, start.sequence),
        max(before.ids_from, said["ids_from"]),
    )
    txn.put(FLOOR_KEY, after.pack())
