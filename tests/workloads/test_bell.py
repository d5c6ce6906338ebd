"""The doorbell between processes."""

import subprocess
import sys
import threading
import time

from apps.workloads.bell import Bell


def test_a_ring_wakes_whoever_waits_and_silence_ends_in_time(tmp_path):
    bell = Bell(tmp_path / "bell")
    heard = bell.number()
    threading.Timer(0.1, bell.ring).start()
    began = time.monotonic()
    assert bell.wait(heard, 60.0) and time.monotonic() - began < 30
    assert not bell.wait(bell.number(), 0.05)


def test_a_ring_before_the_wait_is_not_lost(tmp_path):
    bell = Bell(tmp_path / "bell")
    heard = bell.number()
    bell.ring()
    assert bell.wait(heard, 0.0)


def test_two_rings_never_undo_each_other(tmp_path):
    bell = Bell(tmp_path / "bell")
    heard = bell.number()
    for _ in range(100):
        bell.ring()
        assert bell.number() != heard


def test_a_stop_ends_the_wait(tmp_path):
    stop = threading.Event()
    stop.set()
    assert not Bell(tmp_path / "bell").wait(Bell(tmp_path / "bell").number(), 5.0, stop=stop)


def test_another_process_hears_and_rings_the_same_bell(tmp_path):
    bell = Bell(tmp_path / "bell")
    heard = bell.number()
    code = (
        f"from pathlib import Path; from apps.workloads.bell import Bell; Bell(Path({str(tmp_path / 'bell')!r})).ring()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
    assert bell.wait(heard, 1.0)
