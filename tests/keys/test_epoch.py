"""The revocation epoch: what a process may remember, and when it must forget."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from apps.keys.epoch import Epoch


def test_a_change_moves_the_epoch_and_nothing_may_be_remembered_meanwhile(tmp_path: Path) -> None:
    epoch = Epoch(tmp_path / "e")
    before = epoch.read()
    with epoch.moving():
        assert epoch.read() is None
    after = epoch.read()
    assert before is not None and after is not None and after > before


def test_a_failed_change_moves_it_too_since_it_may_have_been_committed(tmp_path: Path) -> None:
    epoch = Epoch(tmp_path / "e")
    before = epoch.read()
    with pytest.raises(RuntimeError), epoch.moving():
        raise RuntimeError
    assert epoch.read() not in (None, before)


def test_every_mapping_of_the_file_sees_the_same_epoch(tmp_path: Path) -> None:
    one, other = Epoch(tmp_path / "e"), Epoch(tmp_path / "e")
    with one.moving():
        assert other.read() is None
    assert one.read() == other.read()


def test_changes_at_the_same_time_take_turns(tmp_path: Path) -> None:
    epochs = [Epoch(tmp_path / "e") for _ in range(4)]
    inside: list[int] = []
    overlaps: list[int] = []

    def change(epoch: Epoch) -> None:
        for _ in range(50):
            with epoch.moving():
                inside.append(1)
                overlaps.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=change, args=(epoch,)) for epoch in epochs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(overlaps) == {1}
    assert epochs[0].read() == 2 * 200


def test_a_process_killed_in_a_change_leaves_memory_unused_until_the_next_open(tmp_path: Path) -> None:
    watcher = Epoch(tmp_path / "e")
    script = (
        "import os, sys; from pathlib import Path; from apps.keys.epoch import Epoch\n"
        "with Epoch(Path(sys.argv[1])).moving(): os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "e")], check=False)
    assert done.returncode == -9
    assert watcher.read() is None
    Epoch(tmp_path / "e")
    assert watcher.read() == 2


def test_opening_never_settles_a_change_that_is_under_way(tmp_path: Path) -> None:
    epoch = Epoch(tmp_path / "e")
    with epoch.moving():
        assert Epoch(tmp_path / "e").read() is None
        assert epoch.read() is None
