"""The open segment files of a store, shared by its threads."""

import random
import sys
import threading
from pathlib import Path

from feltdb_engine.files import File, OSFile, OSFiles
from feltdb_engine.segment import Log


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
