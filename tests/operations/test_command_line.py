"""`manage.py` as somebody meets it who has not read anything: what there is, and what is wrong, in plain lines."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands

from feltsite import environment

ROOT = Path(__file__).resolve().parents[2]
NOBODY = "postgres://nobody@127.0.0.1:1/none"


def manage(data: Path, *words: str, python: str = sys.executable, **changed: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    settings = {"FELTDB_DATA_DIR": str(data), "DJANGO_SETTINGS_MODULE": "feltsite.settings"}
    return subprocess.run(
        [python, "manage.py", *words],
        cwd=ROOT,
        env={**kept, **settings, **changed},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_help_lists_every_command_of_feltdb_first_with_what_it_does_and_all_others_by_name(tmp_path: Path) -> None:
    done = manage(tmp_path, "help")
    ours, others = done.stdout.split("Django's own")
    for name, app in get_commands().items():
        if app.startswith("apps."):
            assert re.search(rf"^  {name} +[A-Z].{{20}}", ours, re.MULTILINE), name
        else:
            assert re.search(rf"\b{name}\b", done.stdout), name
    assert "squashmigrations" in others and max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    "words",
    [["migrate"], ["changepassword", "admin"], ["keys", "list"], ["worker", "--once"]],
    ids=" ".join,
)
def test_a_database_that_does_not_answer_is_told_in_a_line_by_every_command(words: list[str], tmp_path: Path) -> None:
    done = manage(tmp_path, *words, DATABASE_URL=NOBODY)
    assert done.returncode == 3
    assert "the database cannot be used: connection failed" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "setup" not in done.stderr, "that would not help"


@pytest.mark.parametrize("words", [["keys", "list"], ["trigger", "list"], ["worker"]], ids=" ".join)
def test_a_database_that_is_not_made_yet_is_told_with_the_command_that_makes_it(
    words: list[str], tmp_path: Path
) -> None:
    done = manage(tmp_path, *words)
    assert done.returncode != 0
    assert "run 'manage.py setup'" in done.stderr and "Traceback" not in done.stderr


def test_a_full_disk_stops_the_first_start_in_a_line(tmp_path: Path) -> None:
    # A file may grow to 60 KiB: SQLite says of it what it says of a full disk.
    limited = tmp_path / "python"
    limited.write_text(f'#!/bin/bash\nulimit -f 60\ntrap "" XFSZ\nexec {sys.executable} "$@"\n')
    limited.chmod(0o755)
    done = manage(tmp_path / "data", "setup", python=str(limited))
    assert done.returncode == 3, done.stderr
    assert "the database cannot be used" in done.stderr and "Traceback" not in done.stderr


def test_a_python_without_the_dependencies_is_told_which_one_has_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "manage.py", "help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert ".venv/bin/python manage.py" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["nosuch", "nosuch.apps.Config", "not-a-name", ".x"])
def test_an_app_that_is_not_there_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    done = manage(tmp_path, "setup", FELTDB_APPS=name)
    assert done.returncode == 1
    assert done.stderr.startswith(f"manage.py: FELTDB_APPS: there is no Python package {name!r}")


def test_a_setting_that_is_spelled_wrong_is_named_with_the_right_one_and_others_are_left_alone(tmp_path: Path) -> None:
    done = manage(tmp_path, "setup", FELTDB_DATADIR="/elsewhere", FELTDB_KEY="fdb_x")
    assert done.returncode == 0
    assert "FELTDB_DATADIR is no setting and means nothing; is FELTDB_DATA_DIR meant?" in done.stderr
    assert "FELTDB_KEY" not in done.stderr
    assert environment.mistyped(dict.fromkeys(environment.named(), "")) == {}


@pytest.mark.parametrize("name", ["/nowhere/python", "/bin/false", shutil.which("true") or "/bin/true"])
def test_a_name_that_is_no_python_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "make-venv", name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"FeltDB needs Python 3.11 or later; {name} is none. Name another: make PYTHON=/path/to/python3.11 ...\n"
    )
    assert list(tmp_path.iterdir()) == []
