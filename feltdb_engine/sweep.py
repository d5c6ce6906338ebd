"""What a compaction forgets, and clearing it out of the view, one bounded batch at a time.

Forgetting is a frame in the log (`floors.py`); from then on nobody sees what is forgotten. Clearing it away only gives
room back: replaying the log needs none of it, and a batch that is lost is done again.
"""

import time
from collections.abc import Callable
from typing import Any

from feltdb_engine import limits, view
from feltdb_engine.core import Core
from feltdb_engine.entries import pages
from feltdb_engine.policy import Retention
from feltdb_engine.view import ENTRY, POSITION, TRANSACTION, Floor, State, Transaction
from feltdb_engine.writer import Outcome, Writer, nothing_done


def versions(core: Core, upto: int) -> dict[str, int]:
    """By collection, the highest version of any tombstone up to a sequence. Such tombstones only get fewer."""
    found: dict[str, int] = {}
    for page in pages(core.view, core.view.tombstones):
        for key, entry in page:
            version, sequence, _ = ENTRY.unpack_from(entry)
            if sequence <= upto:
                name = key[: key.index(b"\0")].decode()
                found[name] = max(found.get(name, 0), version)
    return found


def ids_from(core: Core, policy: Retention, state: State, now_ms: int) -> int:
    """The base sequence below which transaction ids may be forgotten: a little less than that, where it is unclear."""
    if policy.ids_age_ms is None:
        return 0
    with core.view.read() as txn:
        if txn.stat(core.view.transactions)["entries"] <= policy.ids_count:
            return 0
    young_from = state.sequence  # which those to come are based on
    width = state.sequence // limits.IDS_BUCKETS + 1
    counted = [0] * (limits.IDS_BUCKETS + 1)
    for page in pages(core.view, core.view.transactions):
        for _, data in page:
            _, _, base, at_ms, _, _ = TRANSACTION.unpack_from(data)
            counted[min(base // width, limits.IDS_BUCKETS)] += 1
            if at_ms > now_ms - policy.ids_age_ms:
                young_from = min(young_from, base)
    kept, bucket = 0, len(counted)
    while bucket and kept < policy.ids_count:
        bucket -= 1
        kept += counted[bucket]
    return min(young_from, bucket * width) if kept >= policy.ids_count else 0


def is_forgotten(name: str, data: bytes, floor: Floor) -> bool:
    """Whether an entry of a database counts as absent."""
    if name == "tombstones":
        return bool(ENTRY.unpack_from(data)[1] <= floor.forgotten)
    if name == "transactions":
        return view.transaction_base(data)[1] < floor.ids_from
    if name == "feed":
        return bool(POSITION.unpack(data)[0] < floor.start.position)
    return False


def clear(core: Core, writer: Writer) -> int:
    """Clear away all that is forgotten; gives how many entries went."""
    with core.view.read() as txn:
        floor = view.floor(txn)
        if txn.get(view.SWEPT_KEY) == floor.pack():
            return 0
    gone = 0
    for name in ("feed", "tombstones", "transactions"):
        database = getattr(core.view, name)
        victims: list[bytes] = []
        for page in pages(core.view, database):
            victims += [key for key, data in page if is_forgotten(name, data, floor)]
            while len(victims) >= limits.SWEEP_BATCH_ENTRIES:
                batch, victims = victims[: limits.SWEEP_BATCH_ENTRIES], victims[limits.SWEEP_BATCH_ENTRIES :]
                gone += _remove(core, writer, name, database, batch, floor)
        if victims:
            gone += _remove(core, writer, name, database, victims, floor)
    _in_turn(core, writer, lambda txn: _swept(txn, floor))
    return gone


def _swept(txn: Transaction, floor: Floor) -> None:
    txn.put(view.SWEPT_KEY, floor.pack())
    view.count_keys(txn)


def _remove(core: Core, writer: Writer, name: str, database: Any, keys: list[bytes], floor: Floor) -> int:
    """Those that still are forgotten: a key may have been written again since it was seen."""
    gone = 0

    def act(txn: Transaction) -> None:
        nonlocal gone
        for key in keys:
            data = txn.get(key, db=database)
            if data is not None and is_forgotten(name, data, floor):
                gone += txn.delete(key, db=database)

    _in_turn(core, writer, act)
    return gone


def _in_turn(core: Core, writer: Writer, change: Callable[[Transaction], object]) -> None:
    def act(txn: Transaction, state: State) -> Outcome:
        change(txn)
        core.files.step("sweep batch")
        txn.commit()
        core.files.step("sweep batch committed")
        return nothing_done(state)

    writer.own(act, time.monotonic() + limits.TURN_WAIT_S)
    time.sleep(limits.COMPACTION_PAUSE_S)
