"""A1 to A4 of the reference's acceptance list: the two settings, their defaults and bounds; and the room they get."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.keys import limits as key_limits
from apps.workloads import limits as workload_limits
from feltsite import capacity, environment

ROOT = Path(__file__).resolve().parents[2]


def test_requests_in_flight_default_to_four_for_each_core_and_never_exceed_64() -> None:
    assert capacity.of({}, cores=2).max_in_flight == 8
    assert capacity.of({}, cores=1).permits == 4, "at least four in each process"
    many = capacity.of({"WEB_WORKERS": "8"}, cores=128)
    assert (many.max_in_flight, many.permits) == (64, 8)
    assert capacity.of({"FELTDB_MAX_IN_FLIGHT": "64"}, cores=2).permits == 32


def test_the_bound_holds_for_the_instance_however_many_processes_there_are() -> None:
    for processes in range(1, 9):
        for bound in range(1, 65):
            got = capacity.of({"WEB_WORKERS": str(processes), "FELTDB_MAX_IN_FLIGHT": str(bound)}, cores=2)
            assert 1 <= got.processes * got.permits <= bound


def test_there_are_always_more_threads_than_permits() -> None:
    for cores in (1, 2, 16, 128):
        got = capacity.of({}, cores=cores)
        assert got.threads >= got.permits + got.feed_waiting + capacity.MAX_WAITING_CLAIMS + capacity.SPARE_THREADS
    with pytest.raises(ImproperlyConfigured, match="WEB_THREADS is 4"):
        capacity.of({"WEB_THREADS": "4"}, cores=2)


def test_signing_in_has_a_thread_for_each_hash_and_each_that_waits_for_one() -> None:
    assert capacity.MAX_WAITING_HASHES == key_limits.MAX_WAITING_HASHES
    assert capacity.of({}, cores=2).sign_ins == 2 + key_limits.MAX_WAITING_HASHES
    assert capacity.of({"FELTDB_PASSWORD_HASHES_AT_ONCE": "8"}).sign_ins == 8 + key_limits.MAX_WAITING_HASHES


def test_the_threads_of_waiting_claims_are_counted_as_the_work_room_bounds_them() -> None:
    assert capacity.MAX_WAITING_CLAIMS == workload_limits.MAX_WAITING_CLAIMS


def test_the_deadline_defaults_to_ten_seconds() -> None:
    assert environment.whole("FELTDB_REQUEST_DEADLINE_MS", environment={}) == 10_000


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("FELTDB_MAX_IN_FLIGHT", "x", "invalid FELTDB_MAX_IN_FLIGHT"),
        ("FELTDB_MAX_IN_FLIGHT", "0", "FELTDB_MAX_IN_FLIGHT is 0; it must be at least 1"),
        ("FELTDB_MAX_IN_FLIGHT", "-3", "FELTDB_MAX_IN_FLIGHT is -3; it must be at least 1"),
        ("FELTDB_MAX_IN_FLIGHT", "65", "at most 64"),
        ("FELTDB_REQUEST_DEADLINE_MS", "soon", "invalid FELTDB_REQUEST_DEADLINE_MS"),
        ("FELTDB_REQUEST_DEADLINE_MS", "99", "FELTDB_REQUEST_DEADLINE_MS is 99; it must be at least 100"),
        ("FELTDB_REQUEST_DEADLINE_MS", "1e3", "invalid FELTDB_REQUEST_DEADLINE_MS"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_naming_the_setting(name: str, value: str, says: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=says):
        environment.whole(name, environment={name: value})


def test_the_least_and_the_greatest_value_of_each_number_are_taken() -> None:
    for variable in environment.VARIABLES:
        if variable.kind == "whole":
            for value in (variable.low, variable.high):
                assert environment.whole(variable.name, environment={variable.name: str(value)}) == value


@pytest.mark.parametrize(
    "command", [["manage.py", "check"], ["-m", "gunicorn", "-c", "feltsite/gunicorn.conf.py", "feltsite.wsgi"]]
)
def test_neither_server_nor_command_starts_with_a_bad_value(command: list[str], tmp_path: Path) -> None:
    changed = {"FELTDB_DATA_DIR": str(tmp_path), "FELTDB_MAX_IN_FLIGHT": "0", "PORT": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env={**os.environ, **changed}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "FELTDB_MAX_IN_FLIGHT is 0; it must be at least 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_variable_is_in_the_reference_and_the_reference_is_current() -> None:
    assert (ROOT / "docs/settings.md").read_text(encoding="utf-8") == environment.reference()


def test_no_variable_is_read_that_is_not_in_the_table() -> None:
    known = {variable.name for variable in environment.VARIABLES}
    for name in ("settings.py", "gunicorn.conf.py", "capacity.py"):
        text = (ROOT / "feltsite" / name).read_text(encoding="utf-8")
        for call in ("env.text(", "env.whole(", "env.flag(", "env.listed("):
            for piece in text.split(call)[1:]:
                assert piece.split('"')[1] in known
        assert "os.environ.get" not in text


def test_the_readme_names_only_variables_there_are_and_leads_to_all_of_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("## Settings") :]
    known = {variable.name for variable in environment.VARIABLES}
    named = {
        name for line in table.splitlines() if line.startswith("| `") for name in line.split("|")[1].split("`")[1::2]
    }
    assert named and named <= known
    assert "docs/settings.md" in table


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("FELTDB_DATA_DIR", "/dev/null/data", "FELTDB_DATA_DIR: cannot use /dev/null/data"),
        ("FELTDB_DATA_DIR", "/dev/null", "FELTDB_DATA_DIR: cannot use /dev/null"),
        ("DATABASE_URL", "nonsense", "DATABASE_URL must begin with sqlite:/// or postgres://"),
        ("DATABASE_URL", "mysql://root:hush@127.0.0.1/x", "DATABASE_URL must begin with sqlite:/// or postgres://"),
        ("DATABASE_URL", "postgres://root:hush@127.0.0.1:port/x", "DATABASE_URL is no usable URL"),
        ("DATABASE_URL", "postgres://root:hush@127.0.0.1:1/x", "cannot open the database that DATABASE_URL names"),
        ("DATABASE_URL", "sqlite:////dev/null/x.sqlite3", "cannot open the database that DATABASE_URL names"),
    ],
)
def test_a_place_that_cannot_be_used_stops_the_first_start_in_a_line_that_names_it_and_no_password(
    name: str, value: str, says: str, tmp_path: Path
) -> None:
    changed = {**os.environ, "FELTDB_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "feltsite.settings"}
    changed[name] = value
    done = subprocess.run(
        [sys.executable, "manage.py", "setup"], cwd=ROOT, env=changed, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr and "hush" not in done.stderr
