"""pg_dump and pg_restore as a backup uses them: no password where others read it, and none left behind at work."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres
from tests.operations.faults import eventually

ROOT = Path(__file__).resolve().parents[2]
SECRET = "not-for-any-eye-7f3a"
RUN = """
import sys, django
django.setup()
from pathlib import Path
from apps.http.errors import ApiError
from apps.operations.services.backups import databases
from feltdb_engine.errors import BackupInvalid
from apps.operations.services.backups.bundle import Bundle
path = Path(sys.argv[2])
try:
    if sys.argv[1] == "dump":
        databases._tool("pg_dump", [f"--file={path}"], lambda done, total: None, path)
    elif sys.argv[1] == "load":
        databases.load_dump(path, lambda done, total: None)
    else:
        databases._check_dump(path)
except (ApiError, BackupInvalid) as error:
    sys.exit(f"refused: {error}")
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory of programs that stand before all others."""
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def tool(tools: Path, name: str, script: str) -> None:
    (tools / name).write_text(f"#!/bin/sh\n{script}\n")
    (tools / name).chmod(0o755)


def environment(tmp_path: Path, tools: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "feltsite.settings",
        "FELTDB_DATA_DIR": str(tmp_path / "data"),
        "DATABASE_URL": f"postgres://someone:{SECRET}@127.0.0.1:1/kept",
        "PATH": f"{tools}:{os.environ['PATH']}",
        **more,
    }


def run(tmp_path: Path, tools: Path, what: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", RUN, what, str(tmp_path / "file")],
        cwd=ROOT,
        env=environment(tmp_path, tools, **more),
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_password_goes_by_the_environment_alone_and_is_in_no_message(tmp_path: Path, tools: Path) -> None:
    seen = tmp_path / "seen"
    tool(tools, "pg_dump", f'echo "$0 $@" > {seen}; echo "$PGPASSWORD" > {seen}.env; echo "error: no" >&2; exit 1')
    done = run(tmp_path, tools, "dump")
    assert Path(f"{seen}.env").read_text().strip() == SECRET
    assert SECRET not in seen.read_text()
    assert done.returncode == 1 and done.stderr.strip() == "refused: error: no"


def test_a_tool_of_another_version_is_told_in_its_own_words_all_of_them(tmp_path: Path, tools: Path) -> None:
    words = "pg_dump: error: aborting because of server version mismatch\\npg_dump: detail: server version: 17; 15"
    tool(tools, "pg_dump", f"printf '{words}\\n' >&2; exit 1")
    said = run(tmp_path, tools, "dump").stderr
    assert "server version mismatch" in said and "server version: 17" in said and "Traceback" not in said


def test_a_tool_that_is_not_there_is_named_with_what_to_install(tmp_path: Path, tools: Path) -> None:
    done = run(tmp_path, tools, "load", PATH=str(tools))
    assert done.returncode == 1
    assert done.stderr.startswith("refused: pg_restore is not installed here") and "Traceback" not in done.stderr


@pytest.mark.parametrize(("what", "name"), [("dump", "pg_dump"), ("load", "pg_restore")])
def test_a_backup_or_restore_that_is_killed_leaves_no_tool_at_work(
    tmp_path: Path, tools: Path, what: str, name: str
) -> None:
    at_work = tmp_path / "at-work"
    tool(tools, name, f"echo $$ > {at_work}.new; mv {at_work}.new {at_work}; exec sleep 600")
    parent = subprocess.Popen(
        [sys.executable, "-c", RUN, what, str(tmp_path / "file")], cwd=ROOT, env=environment(tmp_path, tools)
    )
    try:
        eventually(at_work.exists, 60, f"{name} was started")
        pid = int(at_work.read_text())
        assert os.getpgid(pid) == os.getpgid(parent.pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        eventually(lambda: _gone(pid), 60, f"{name} ended with it")
    finally:
        parent.kill()
        parent.wait()
        if at_work.exists() and not _gone(int(at_work.read_text())):
            os.kill(int(at_work.read_text()), signal.SIGKILL)


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return True


@pytest.fixture
def database() -> Iterator[str]:
    with postgres.database("backup_tools") as url:
        yield url


def test_a_dump_that_was_cut_short_is_found_by_reading_it_to_its_end(
    tmp_path: Path, tools: Path, database: str
) -> None:
    sql = "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) n"
    subprocess.run(["psql", "-q", "-c", sql, database], check=True, capture_output=True)
    subprocess.run(["pg_dump", "-Fc", "-f", str(tmp_path / "file"), database], check=True, capture_output=True)
    whole = (tmp_path / "file").read_bytes()
    assert run(tmp_path, tools, "check").returncode == 0
    listed = ["pg_restore", "--list", str(tmp_path / "file")]
    for part in (len(whole) - 1, len(whole) // 2):
        (tmp_path / "file").write_bytes(whole[:part])
        assert subprocess.run(listed, capture_output=True).returncode == 0, "its table of contents is whole"
        done = run(tmp_path, tools, "check")
        assert done.returncode == 1 and "cannot be read" in done.stderr, (part, done.stderr)
