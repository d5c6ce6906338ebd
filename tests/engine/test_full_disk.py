"""A full disk, on a small real file system: refused whole, reads go on, writes resume, nothing refused ever appears."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from feltdb_engine import Store, errors
from tests import disk
from tests.disk import fill
from tests.engine.kit import boot, operations, put, vanish


@pytest.fixture
def small_disk() -> Iterator[Path]:
    with disk.small_disk(megabytes=8) as path:
        yield path


@pytest.mark.parametrize("leave", [0, 8192, 40_960])
def test_a_transaction_the_view_has_no_room_for_never_appears(small_disk: Path, leave: int) -> None:
    directory = small_disk / "s"
    store = Store.open(directory, host=boot(1))
    store.commit([put("a:1", {"n": 1})])
    ballast = fill(small_disk, leave_bytes=leave)
    with pytest.raises(errors.StorageFull) as full:
        store.commit([put("big:1", {"body": "x" * 300_000})], transaction_id="big")
    assert full.value.committed is False
    assert store.get("a:1") is not None, "reads go on"
    smaller = None
    try:
        smaller = store.commit([put("a:2", {"n": 2})], transaction_id="smaller")
    except errors.StorageFull:
        assert leave < 40_960, "there was room for this one"
    ballast.unlink()
    store.commit([put("a:3", {"n": 3})])
    expected = ["a:1", "a:2", "a:3"] if smaller else ["a:1", "a:3"]
    assert [one.key for one in operations(store)] == expected
    vanish(store)
    # The same boot, where the view is kept; another, where it is made again from the log.
    for number in (1, 2):
        with Store.open(directory, host=boot(number)) as again:
            assert [one.key for one in operations(again)] == expected
            assert again.get("big:1") is None and again.transaction("big") is None
            assert again.health().storage == "clean"


def test_a_log_that_cannot_grow_refuses_and_resumes(small_disk: Path) -> None:
    store = Store.open(small_disk / "s", segment_bytes=1 << 16, host=boot(1))
    ballast = fill(small_disk, leave_bytes=200_000)
    refused = 0
    for number in range(60):
        try:
            store.commit([put("a:1", {"n": number, "body": "x" * 10_000})])
        except errors.StorageFull as full:
            assert full.committed is False
            refused += 1
    assert refused > 0
    head = store.head().sequence
    assert head == 60 - refused
    ballast.unlink()
    store.commit([put("a:2", {})])
    assert store.head().sequence == head + 1
    store.close()


def test_a_store_on_a_full_disk_opens_and_is_read(small_disk: Path) -> None:
    with Store.open(small_disk / "s", host=boot(1)) as store:
        store.commit([put("a:1", {"n": 1})])
    fill(small_disk)
    with Store.open(small_disk / "s", host=boot(2)) as store:
        assert store.get("a:1") is not None
        with pytest.raises(errors.StorageFull):
            store.commit([put("a:2", {"body": "x" * 100_000})])
