"""The open segment files of a store, shared by its threads."""

import os
import random
import sys
import threading
from contextlib import suppress
from pathlib import Path

from feltdb_engine import Mutation, Store
from feltdb_engine.files import File, OSFile, OSFiles
from feltdb_engine.segment import OPEN_FILES_MAX, Log


class _Opening(OSFiles):
    """Opens anything, at once."""

    def open(self, path: Path, *, create: bool = False) -> File:
        return OSFile(-1)


def test_threads_that_open_more_segments_than_are_kept_open_do_not_trip_each_other(tmp_path: Path) -> None:
    """One that lets go of the oldest file must not stumble over another that adds one."""
    log = Log(_Opening(), tmp_path, b"", 4096)
    raised: list[BaseException] = []

    def use(seed: int) -> None:
        places = random.Random(seed)
        try:
            for _ in range(20_000):
                log.file(places.randrange(64) * 4096)
                log.forget_before(places.randrange(8) * 4096)
        except BaseException as error:
            raised.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=use, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert raised == []


def _open_segments(directory: Path) -> int:
    """How many descriptors of this process are of segments of that store."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that looks
            found.append(os.readlink(each))
    return sum(each.startswith(str(directory)) and ".seg" in each for each in found)


def test_however_long_the_log_a_process_keeps_so_many_segments_open_and_no_more(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", segment_bytes=1 << 16) as store:
        value = {"text": "x" * 10_000}
        for number in range(7 * 3 * OPEN_FILES_MAX):
            store.commit([Mutation(kind="put", collection="a", id="1", value={**value, "n": number})])
        assert len(list((tmp_path / "store" / "log").glob("*.seg"))) > 3 * OPEN_FILES_MAX
        cursor, seen = store.start(), 0
        while page := store.changes(cursor, limit=10).operations:
            seen += len(page)
            cursor = store.changes(cursor, limit=10).cursor
            assert _open_segments(tmp_path) <= OPEN_FILES_MAX
        assert seen == 7 * 3 * OPEN_FILES_MAX and _open_segments(tmp_path) > OPEN_FILES_MAX // 2
