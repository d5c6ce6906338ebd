"""The operating system's files: short reads and writes are gone on with, errors are told apart, advice may fail."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from feltdb_engine import host
from feltdb_engine.files import ForceFailed, OSFiles
from feltdb_engine.host import Host


def test_short_reads_and_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OSFiles().open(tmp_path / "f", create=True)
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, bytes(data)[:3], offset))
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 2), offset))
    file.write(5, b"0123456789")
    assert file.read(5, 10) == b"0123456789"
    assert file.read(5, 11) == b"0123456789", "fewer only at the end"
    assert file.read(15, 4) == b""
    assert file.size() == 15 and file.identity() == host.identity(tmp_path / "f")
    file.close()


def test_a_write_that_fails_after_a_part_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OSFiles().open(tmp_path / "f", create=True)
    pwrite = os.pwrite

    def full(fd: int, data: Any, offset: int) -> int:
        if offset:
            raise OSError(errno.ENOSPC, "no room")
        return pwrite(fd, bytes(data)[:3], offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError) as failed:
        file.write(0, b"0123456789")
    assert failed.value.errno == errno.ENOSPC and not isinstance(failed.value, ForceFailed)


def test_a_failed_force_is_told_from_other_errors_and_advice_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OSFiles().open(tmp_path / "f", create=True)

    def fail(*_arguments: Any) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fdatasync", fail)
    monkeypatch.setattr(os, "posix_fadvise", fail)
    file.hurry(0, 10)
    with pytest.raises(ForceFailed) as failed:
        file.force()
    assert failed.value.errno == errno.EIO


def test_a_host_without_machine_id_or_mount_table_is_still_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read = Path.read_text

    def missing(path: Path, *arguments: Any, **named: Any) -> str:
        if str(path) in ("/etc/machine-id", "/proc/self/mountinfo"):
            raise FileNotFoundError(path)
        return read(path, *arguments, **named)

    monkeypatch.setattr(Path, "read_text", missing)
    assert Host.current().machine_id == "" and len(Host.current().boot_id) == 16
    assert host.file_system(tmp_path) == ""
    host.refuse_remote(tmp_path)
