"""A store's life with pins, rotations, compactions and a rewritten view, to be cut short; and what must hold then.

Each step is written down before it is taken and after it was answered, as a process could that is killed in between.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from feltdb_engine import Cursor, Mutation, Retention, Store, errors, limits
from tests.engine.disks import DyingFiles
from tests.engine.hooks import HookedFiles, die_at
from tests.engine.kit import boot, delete, operations, put, vanish

SEGMENT = 1 << 16
COMMITS = 34
PINNED = 5
IDS_KEPT = 8
ALL = Retention(age_ms=0, ids_age_ms=None)
FEW_IDS = Retention(age_ms=0, ids_age_ms=0, ids_count=IDS_KEPT)
LATER_MS = 1 << 50

Say = Callable[[str], None]


def mutations(number: int) -> list[Mutation]:
    """What commit `number` does: two puts and sometimes a delete, over a few keys."""
    body = "x" * (number % 4 * 2500)
    found = [put(f"a:{number % 7}", {"by": number, "body": body}), put(f"b:{number % 5}", {"by": number})]
    if number % 3 == 2:
        found.append(delete(f"a:{(number + 3) % 7}"))
    return found


def commits(store: Store, numbers: range, say: Say) -> None:
    """Commit these, one after the other; a refusal ends it."""
    for number in numbers:
        say(f"try {number}")
        try:
            result = store.commit(mutations(number), transaction_id=f"t{number}")
        except errors.EngineError as refused:
            say(f"failed {number}" if refused.committed is False else f"unknown {number}")
            continue
        say(f"ack {number} {result.revision}")


def compact(store: Store, policy: Retention, say: Say) -> None:
    """Compact; it may be refused, and the store goes on."""
    say("compact")
    try:
        done = store.compact(policy, now_ms=LATER_MS)
    except errors.StorageError:
        return
    say(f"compacted {done.floor}")


def live(path: Path, files: Any, say: Say) -> None:
    """The whole life."""
    store = Store.open(path, segment_bytes=SEGMENT, files=files, host=boot(1))
    try:
        commits(store, range(10), say)
        say("pin")
        try:
            store.pin("p", PINNED, None)
        except errors.StorageError:
            pass
        else:
            say("pinned")
        compact(store, ALL, say)
        commits(store, range(10, 20), say)
        say("unpin")
        try:
            store.unpin("p")
        except errors.EngineError:
            pass
        compact(store, ALL, say)
        commits(store, range(20, 30), say)
        say("forget")
        compact(store, FEW_IDS, say)
        commits(store, range(30, 32), say)
    finally:
        vanish(store)
    with Store.open(path, files=files, host=boot(1)) as again:  # finds the view over half free, and rewrites it
        commits(again, range(32, COMMITS), say)


def die(path: Path, journal: Path, step: str, after: int) -> None:
    """The life in a process that dies at a step (or, without a name, at a call) after so many others."""
    limits.REWRITE_MIN_BYTES = 0  # type: ignore[misc]
    limits.REWRITE_FREE_SHARE = -1.0  # type: ignore[misc]
    files = HookedFiles(die_at(step, after)) if step else DyingFiles(after)
    with journal.open("a", buffering=1) as told:
        live(path, files, lambda line: print(line, file=told))


class Expected:
    """What the lines that were told promise."""

    def __init__(self, lines: list[str]) -> None:
        words = [line.split() for line in lines]
        self.tried = [int(one[1]) for one in words if one[0] == "try"]
        self.acknowledged = {int(one[1]): int(one[2]) for one in words if one[0] == "ack"}
        self.failed = {int(one[1]) for one in words if one[0] == "failed"}
        self.pinned = ["pinned"] in words and ["unpin"] not in words
        self.may_forget = ["forget"] in words
        self.floor = max((int(one[1]) for one in words if one[0] == "compacted"), default=0)


def account(path: Path, lines: list[str], *, boots: tuple[int, ...]) -> None:
    """Opened once per boot: nothing lost, nothing half there, no stray file, and it goes on."""
    expected = Expected(lines)
    for turn, number in enumerate(boots):
        with Store.open(path, segment_bytes=SEGMENT, host=boot(number)) as store:
            _judge(store, expected, turn)
            assert store.verify().findings == ()
            _no_strays(path, store)
            store.commit([put("c:1", {"turn": turn})], transaction_id=f"after{turn}")
    with Store.open(path, create=False, host=boot(boots[-1])) as store:
        done = store.compact(ALL, now_ms=LATER_MS)
        assert done.floor <= PINNED if store.pins() else done.floor == done.head
        assert store.verify().findings == ()
        _no_strays(path, store)


def _judge(store: Store, expected: Expected, turn: int) -> None:
    head, floor = store.head().sequence, store.health().floor
    there = [number for number in expected.tried if _known(store, number)]
    forgotten = 0
    if expected.may_forget and there:
        # Those whose ids are gone were acknowledged long before the oldest one known.
        forgotten = min(there)
        assert len([one for one in expected.tried if one >= forgotten]) >= min(IDS_KEPT, len(expected.acknowledged))
    committed = [one for one in expected.tried if one in there or (one < forgotten and one in expected.acknowledged)]
    for number, revision in expected.acknowledged.items():
        assert number in committed, f"{number} was acknowledged"
        assert revision <= head, "the sequence never goes back"
    assert not expected.failed & set(there), "what was refused never appears"
    assert floor >= expected.floor and (floor <= PINNED or not expected.pinned)
    instance = store.instance_id
    told = list(operations(store, Cursor(instance_id=instance, sequence=floor)))
    assert [one.sequence for one in told] == list(range(floor + 1, head + 1)), "no hole"
    for below in {floor - 1, floor // 2} - {floor, -1}:
        try:
            store.changes(Cursor(instance_id=instance, sequence=below))
        except errors.FeedCompacted as refused:
            assert refused.details["floor"] == floor
        else:
            raise AssertionError("the feed answered below the floor")
    for number in there:
        revision = store.transaction(f"t{number}")
        assert revision is not None
        if revision.base_revision >= floor:
            seen = [one.sequence for one in told if one.transaction_id == f"t{number}"]
            assert seen == list(revision.sequences), "whole, and once"
    state = _state(committed)
    if turn:
        state["c:1"] = turn - 1
    assert {key: value for key, (value, _) in _contents(store).items()} == state
    versions = {one.key: one.version for one in told}
    for key, (_, version) in _contents(store).items():
        assert version >= versions.get(key, 1)


def _known(store: Store, number: int) -> bool:
    return store.transaction(f"t{number}") is not None


def _state(committed: list[int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number in committed:
        for one in mutations(number):
            key = f"{one.collection}:{one.id}"
            if one.value is None:
                found.pop(key, None)
            else:
                found[key] = number
    return found


def _contents(store: Store) -> dict[str, tuple[Any, int]]:
    records = [record for one in store.collections() for record in store.page(one.name).records]
    return {one.key: (one.value["turn" if one.collection == "c" else "by"], one.version) for one in records}


def _no_strays(path: Path, store: Store) -> None:
    found = store._core.manifest
    snapshots = path / "snapshots"
    names = {one.name for one in snapshots.iterdir()} if snapshots.exists() else set()
    assert names == {f"{one.position:020d}.snap" for one in found.snapshots}
    segments = [int(one.stem) for one in (path / "log").iterdir() if one.suffix == ".seg"]
    assert len(segments) == len(list((path / "log").iterdir())), "nothing but segments"
    assert min(segments) >= found.start.position
    known = {"manifest.json", "log", "view", "trust", "positions", "tails", "snapshots"}
    assert not {one.name for one in path.iterdir() if one.suffix != ".lock"} - known
