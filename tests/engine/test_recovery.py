"""What opening makes of a log that was cut, flipped or left with a tail."""

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from feltdb_engine import Store, errors, view
from feltdb_engine.files import File, OSFiles
from feltdb_engine.frame import HEADER_BYTES, decode
from feltdb_engine.segment import segment_name
from tests.engine.kit import boot, operations, put, vanish

SEGMENT = 1 << 16


class Recorder(OSFiles):
    """Writes down what is called, by file name; tails, whose names are random, as "tail"."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def open(self, path: Path, *, create: bool = False) -> File:
        name = "tail" if path.suffix == ".tail" else path.name
        self.calls.append(("create" if create else "open", name))
        return _RecordedFile(super().open(path, create=create), name, self.calls)

    def force_names(self, directory: Path) -> None:
        self.calls.append(("force names", directory.name))
        super().force_names(directory)


class _RecordedFile:
    def __init__(self, inner: File, name: str, calls: list[tuple[str, str]]) -> None:
        self._inner = inner
        self._name = name
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, offset: int, data: bytes) -> None:
        self._calls.append(("write", self._name))
        self._inner.write(offset, data)

    def force(self) -> None:
        self._calls.append(("force", self._name))
        self._inner.force()


class Crashed:
    """A directory as a power cut leaves it, and the frames its log was made of."""

    def __init__(self, directory: Path, commits: int) -> None:
        self.directory = directory
        self.path = directory / "log" / segment_name(0)
        store = Store.open(directory, segment_bytes=SEGMENT, host=boot(1))
        for number in range(commits):
            store.commit([put(f"a:{number}", {"n": number})], transaction_id=f"t{number}", at_ms=number)
        vanish(store)
        self.log = self.path.read_bytes()
        self.trust = (directory / "trust").read_bytes()
        self.ends = list(_frame_ends(self.log))

    def reset(self, log: bytes) -> None:
        """The same directory, its log replaced; nothing else vouches for anything."""
        self.path.write_bytes(log)
        (self.directory / "trust").write_bytes(self.trust)
        (self.directory / "positions").unlink(missing_ok=True)
        for extra in (self.directory / "log").iterdir():
            if extra != self.path:
                extra.unlink()

    def open(self, number: int) -> Store:
        """Open on another boot."""
        return Store.open(self.directory, host=boot(number))


def _frame_ends(log: bytes) -> list[int]:
    ends, at = [], 0
    while (found := decode(log, at, at)) is not None:
        at = found.end
        ends.append(at)
    return ends


def cut_everywhere(base: Path, *, commits: int, frames: int, until: float = math.inf) -> int:
    """Cut a log at every byte of its last frames; open, commit, and open twice more. Gives how many cuts were made."""
    crashed = Crashed(base / "s", commits)
    first = crashed.ends[-frames - 1]
    cuts = 0
    for cut in range(first, crashed.ends[-1] + 1):
        if time.monotonic() > until:
            break
        crashed.reset(crashed.log[:cut])
        whole = sum(end <= cut for end in crashed.ends) - 2  # the segment's and the timeline's frame are two
        with crashed.open(2) as store:
            assert [one.transaction_id for one in operations(store)] == [f"t{number}" for number in range(whole)]
            health = store.health()
            partial = cut - crashed.ends[whole + 1]
            visible = len(crashed.log[crashed.ends[whole + 1] : cut].rstrip(b"\0"))
            assert partial >= visible
            if visible:
                assert (health.storage, health.byte_offset) == ("recovered-incomplete-write", crashed.ends[whole + 1])
                assert health.discarded_bytes == visible
            else:
                assert health.storage == "clean"
            store.commit([put("after:1", {"cut": cut})], transaction_id="after")
            assert store.get(f"a:{commits - 1}") is None or whole == commits
        for number in (3, 4):
            with crashed.open(number) as store:
                told = [one.transaction_id for one in operations(store)]
                expected = [f"t{number}" for number in range(whole)] + ["after"]
                assert told[: whole + 1] == expected
                assert store.health().storage == ("recovered-incomplete-write" if visible else "clean")
                store.commit([put(f"after:{number}", {})])
        cuts += 1
    print(cuts, "cuts")
    return cuts


@pytest.mark.acceptance
def test_a_log_cut_at_every_byte_of_its_last_three_frames_opens_to_the_exact_prefix(quick: Path) -> None:
    """About 20 s: some 500 cuts, each opened three times."""
    assert cut_everywhere(quick, commits=8, frames=3) > 400


def flip_bits(base: Path, *, bits: Iterable[int] | None, until: float = math.inf) -> int:
    """Flip a bit in every byte of a log: one of the eight by turns, or all that are asked for. Gives how many."""
    crashed = Crashed(base / "s", 4)
    last = crashed.ends[-2]
    refused = cut = 0
    bytes_there = range(crashed.ends[-1] + HEADER_BYTES)
    for at, bit in [(place, bit) for place in bytes_there for bit in (bits or (place % 8,))]:
        if time.monotonic() > until:
            break
        flipped = bytearray(crashed.log)
        flipped[at] ^= 1 << bit
        crashed.reset(bytes(flipped))
        try:
            store = crashed.open(2)
        except errors.LogCorrupt as damage:
            assert at < last, "what was never known to be durable is cut, not refused"
            assert damage.details["offset"] == max(end for end in [0, *crashed.ends] if end <= at)
            refused += 1
            continue
        with store:
            assert at >= last, "damage below D is refused"
            told = [one.transaction_id for one in operations(store)]
            expected = 4 if at >= crashed.ends[-1] else 3
            assert told == [f"t{number}" for number in range(expected)]
            assert store.health().storage == "recovered-incomplete-write"
            cut += 1
    print(refused, "flips refused,", cut, "cut")
    return refused + cut


@pytest.mark.acceptance
def test_a_bit_flipped_in_any_byte_is_refused_below_d_and_cut_above_it(quick: Path) -> None:
    """About 15 s: every byte of a small log, one bit each."""
    assert flip_bits(quick, bits=None) > 800


def test_the_cut_tail_is_kept_aside_and_reported_until_acknowledged(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path / "s", 3)
    end = crashed.ends[-2]
    torn = crashed.log[: end + 40]
    crashed.reset(torn)
    with crashed.open(2) as store:
        assert store.health().storage == "recovered-incomplete-write"
    (kept,) = (tmp_path / "s" / "tails").iterdir()
    assert kept.read_bytes() == torn[end:].rstrip(b"\0")
    with crashed.open(3) as store:
        assert store.health().byte_offset == end
        store.acknowledge_recovery()
        assert store.health().storage == "clean"
    with crashed.open(4) as store:
        assert store.health().storage == "clean"


def test_a_tail_is_cut_in_the_order_that_survives_a_crash_at_any_point(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path / "s", 2)
    end = crashed.ends[-1]
    crashed.reset(crashed.log[:end] + b"torn")
    files = Recorder()
    with Store.open(crashed.directory, files=files, host=boot(2)):
        pass
    name = segment_name(0)
    aside = files.calls.index(("create", "tail"))
    cut = files.calls[aside:]
    order = [
        ("create", "tail"),
        ("write", "tail"),
        ("force", "tail"),
        ("force names", "tails"),
        ("write", name),  # the zeroes
        ("force", name),
        ("write", name),  # the recovery frame
        ("force", name),
    ]
    assert cut[: len(order)] == order


def test_each_recovery_begins_an_epoch_of_its_own(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path / "s", 2)
    epochs = []
    for number in range(3):
        log = bytearray(crashed.path.read_bytes())
        log[max(_frame_ends(bytes(log))) + 64] = 1
        crashed.path.write_bytes(bytes(log))
        with crashed.open(number + 2) as store:
            store.commit([put("a:1", {"n": number})])
            with store._core.view.read() as txn:
                chain = view.state(txn)
        epochs.append(chain.epoch)
    assert len(set(epochs)) == 3


def test_a_cut_frame_never_comes_back(tmp_path: Path) -> None:
    """A later frame is lost, the same bytes are written by the same request, then the lost frame's page shows up."""
    crashed = Crashed(tmp_path / "s", 3)
    before, lost = crashed.ends[-2], crashed.log[crashed.ends[-2] : crashed.ends[-1]]
    crashed.reset(crashed.log[: before + 20] + bytes(len(lost) - 20))
    with crashed.open(2) as store:
        assert store.head().sequence == 2
    log = bytearray(crashed.path.read_bytes())
    at = max(_frame_ends(bytes(log)))
    log[at : at + len(lost)] = lost
    crashed.path.write_bytes(bytes(log))
    (crashed.directory / "positions").unlink()
    with crashed.open(3) as store:
        assert store.head().sequence == 2
        assert store.get("a:2") is None


def test_a_log_shorter_than_what_was_known_to_be_durable_is_refused(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path / "s", 3)
    with crashed.open(2):
        pass
    crashed.path.write_bytes(crashed.log[: crashed.ends[-2]])
    with pytest.raises(errors.LogCorrupt) as damage:
        crashed.open(3)
    assert damage.value.details == {"segment": f"{0:020d}", "offset": crashed.ends[-2], "sequence": 3}


def test_a_damaged_first_segment_frame_is_refused(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path / "s", 0)
    crashed.reset(bytes(len(crashed.log)))
    (crashed.directory / "trust").unlink()
    with pytest.raises(errors.LogCorrupt):
        crashed.open(2)


def test_kept_tails_are_bounded(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path / "s", 1)
    for number in range(12):
        log = bytearray(crashed.path.read_bytes())
        log[max(_frame_ends(bytes(log))) + 100] = 7
        crashed.path.write_bytes(bytes(log))
        with crashed.open(number + 2):
            pass
    assert len(list((tmp_path / "s" / "tails").iterdir())) == 8


def test_a_tail_that_reaches_into_the_next_segment_is_cut_as_a_whole(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path / "s", 2)
    crashed.path.write_bytes(crashed.log[: crashed.ends[-1]] + b"torn" * 10)
    (tmp_path / "s" / "log" / segment_name(SEGMENT)).write_bytes(bytes(100) + b"torn too" + bytes(5000))
    with crashed.open(2) as store:
        assert store.head().sequence == 2
        assert store.health().discarded_bytes == SEGMENT - crashed.ends[-1] + 108
        for number in range(20):
            store.commit([put(f"b:{number}", {"body": "x" * 9000})])
    with crashed.open(3) as store:
        assert store.head().sequence == 22
