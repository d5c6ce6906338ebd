"""Two versions on one directory: the older one says so, and changes nothing. What docs/upgrading.md promises."""

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import google_crc32c
import orjson
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from apps.operations.management.commands import setup
from apps.operations.services import doctor, health, versions
from apps.state import stores

ROOT = Path(__file__).resolve().parents[2]


def codes() -> tuple[int, list[str]]:
    health.forget()
    answer = Client().get("/health/ready")
    return answer.status_code, [each["code"] for each in answer.json()["reasons"]]


def newer() -> None:
    """As if a newer version had run its `setup` here."""
    MigrationRecorder.Migration.objects.create(app="workloads", name="9999_of_the_future")


@pytest.mark.django_db
def test_a_database_that_a_newer_version_has_used_makes_the_older_one_unready_while_it_runs(namespace: str) -> None:
    assert codes() == (200, [])
    newer()
    assert codes() == (503, ["DATABASE_AHEAD"])
    found = [each for each in doctor.examine(verify=False).findings if each.blocking]
    assert [each.code for each in found] == ["DATABASE_AHEAD"] and "9999_of_the_future" in found[0].message


@pytest.mark.django_db
def test_a_database_that_is_behind_makes_the_newer_one_unready(namespace: str) -> None:
    MigrationRecorder.Migration.objects.filter(app="operations").delete()
    assert codes() == (503, ["DATABASE_BEHIND"])


@pytest.mark.django_db
def test_setup_of_the_older_version_refuses_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    newer()
    monkeypatch.setattr(setup, "call_command", lambda *_, **__: pytest.fail("it migrated"))
    with pytest.raises(CommandError, match=r"of a newer version .*9999_of_the_future.*nothing was changed"):
        call_command("setup", stdout=StringIO())


@pytest.mark.django_db
def test_migrations_of_apps_that_are_no_longer_installed_are_nobodys_future() -> None:
    MigrationRecorder.Migration.objects.create(app="an_app_of_ours_once", name="0001_initial")
    assert versions.apart() == ([], [])


@pytest.mark.django_db
def test_what_a_squashed_migration_replaces_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    newer()
    needed, known = versions._known()
    monkeypatch.setattr(versions, "_known", lambda: (needed, known | {("workloads", "9999_of_the_future")}))
    assert versions.apart() == ([], [])


@pytest.mark.django_db
def test_a_look_costs_two_small_queries(django_assert_max_num_queries: Any) -> None:
    versions.apart()
    with django_assert_max_num_queries(2, connection=connection):
        versions.apart()


@pytest.mark.django_db
def test_a_store_of_a_format_of_the_future_is_refused_by_its_number_and_not_touched(
    namespace: str, data_dir: Path
) -> None:
    directory = stores.directory(namespace)
    stores.store(namespace)
    stores.close_all()
    manifest = directory / "manifest.json"
    members = json.loads(manifest.read_bytes().splitlines()[0])
    line = orjson.dumps({**members, "format": 99})
    manifest.write_bytes(b"%s\n%08x\n" % (line, google_crc32c.value(line)))
    before = {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}
    health.forget()
    body = Client().get("/health/ready").json()
    assert (body["code"], body["ready"]) == ("STORAGE_UNAVAILABLE", False)
    assert "format" in body["reasons"][0]["message"] and "99" in body["reasons"][0]["message"]
    assert {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()} == before


@pytest.mark.acceptance
def test_the_commands_of_the_older_version_say_it_in_one_line(tmp_path: Path) -> None:
    environment = {**os.environ, "FELTDB_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "feltsite.settings"}

    def manage(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    assert manage("setup").returncode == 0
    insert = "INSERT INTO django_migrations (app, name, applied) VALUES ('workloads', '9999_x', '2030-01-01')"
    done = manage("shell", "-c", f"from django.db import connection; connection.cursor().execute({insert!r})")
    assert done.returncode == 0, done.stderr
    refused = manage("setup")
    assert refused.returncode == 1 and "of a newer version" in refused.stderr and "Traceback" not in refused.stderr
    assert json.loads(manage("doctor", "--json").stdout)["findings"][0]["code"] == "DATABASE_AHEAD"
