"""Sizes and counts of an open store, as they can be had without a scan."""

import os
from dataclasses import dataclass

from feltdb_engine import exclusive, manifest, positions, snapshot, view
from feltdb_engine.core import Core


@dataclass(frozen=True, kw_only=True, slots=True)
class Stats:
    """Bytes and counts of one moment. `log_disk_bytes` and `view_disk_bytes` are what the disk gives for them."""

    store_id: str
    instance_id: str
    timelines: int
    head: int
    floor: int
    written: int
    durable: int
    segments: int
    snapshots: int
    snapshot_disk_bytes: int
    pins: int
    segment_bytes: int
    log_bytes: int
    log_disk_bytes: int
    view_bytes: int
    view_disk_bytes: int
    view_free_share: float
    collections: int
    records: int
    tombstones: int
    transaction_ids: int


def stats(core: Core) -> Stats:
    """Count."""
    starts = core.log.starts()
    snapshots = (manifest.read(core.files, core.path) or core.manifest).snapshots
    words = core.words
    with core.view.read() as txn:
        state = view.state(txn)
        names = view.collections(txn)
        entries = {
            name: txn.stat(getattr(core.view, name))["entries"] for name in ("records", "tombstones", "transactions")
        }
        lines = len(view.timelines(txn))
        floor = view.floor(txn)
        pins = len(view.pins(txn))
        free_share = core.view.free_share(txn)
        info = core.view.env.info()
    page = core.view.env.stat()["psize"]
    return Stats(
        store_id=core.manifest.store_id,
        instance_id=state.instance.hex(),
        timelines=lines,
        head=words[positions.DURABLE_SEQUENCE],
        floor=floor.sequence,
        written=words[positions.WRITTEN],
        durable=words[positions.DURABLE],
        segments=len(starts),
        snapshots=len(snapshots),
        snapshot_disk_bytes=sum(_on_disk(snapshot.path_of(core.path, one)) for one in snapshots),
        pins=pins,
        segment_bytes=core.log.capacity,
        log_bytes=state.position - floor.start.position,
        log_disk_bytes=sum(_on_disk(core.log.path(start)) for start in starts),
        view_bytes=(info["last_pgno"] + 1) * page,
        view_disk_bytes=_on_disk(core.path / exclusive.VIEW / "data.mdb"),
        view_free_share=round(free_share, 3),
        collections=sum(1 for _, live, _ in names if live),
        records=entries["records"],
        tombstones=entries["tombstones"],
        transaction_ids=entries["transactions"],
    )


def _on_disk(path: os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_blocks * 512
    except FileNotFoundError:
        return 0  # a damaged store is served without a view of its own
