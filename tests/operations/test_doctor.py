"""`manage.py doctor`: finds each kind of trouble, says what to do, and tells by its exit code."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from apps.http import budget
from apps.operations.services import doctor, health, keeping, probing
from apps.state import stores
from feltdb_engine import Mutation
from feltdb_engine.errors import LogCorrupt

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    health.forget()
    printed = StringIO()
    try:
        call_command("doctor", "--json", *arguments, stdout=printed)
    except SystemExit as ended:
        return int(str(ended.code)), json.loads(printed.getvalue())
    return 0, json.loads(printed.getvalue())


def found(document: dict[str, Any]) -> list[str]:
    return [each["code"] for each in document["findings"]]


@pytest.fixture(autouse=True)
def _room_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests' own disk has free is not what they are about."""
    import shutil
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")(100 * 1024**3, 0, 100 * 1024**3)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)


def test_an_instance_that_is_well_gives_no_finding_and_code_0(namespace: str) -> None:
    code, document = run("--verify")
    assert (code, document["ok"], document["findings"]) == (0, True, [])
    assert "log of every store" in document["checks"]


def test_dead_letters_are_counted_with_the_next_step_and_code_4(namespace: str, make_dead: Any) -> None:
    make_dead("a")
    code, document = run()
    assert (code, found(document)) == (4, ["DEAD_LETTERS"])
    assert document["findings"][0]["next_step"] and "1 dead letter" in document["findings"][0]["message"]
    printed = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", stdout=printed)
    assert "DEAD_LETTERS" in printed.getvalue() and "Do: " in printed.getvalue()


def test_unsafe_settings_are_named(namespace: str, settings: Any) -> None:
    settings.DEBUG, settings.ALLOWED_HOSTS, settings.HOST = True, ["*"], "192.0.2.1"
    assert found(run()[1]) == ["DEBUG_ON", "HOSTS_OPEN", "PLAIN_HTTP_EXPOSED"]


def test_secrets_that_others_can_read_are_named(namespace: str, settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / "secrets").mkdir(mode=0o700)
    (tmp_path / "secrets" / "key_pepper_v1").write_text("x")
    (tmp_path / "secrets" / "key_pepper_v1").chmod(0o644)
    assert [each.code for each in doctor._data_directory()] == ["DATA_DIR_EXPOSED"]


def test_a_database_behind_the_code_is_named_before_anything_that_only_wants_attention(
    namespace: str, make_dead: Any
) -> None:
    make_dead("a")
    MigrationRecorder.Migration.objects.filter(app="operations").delete()
    code, document = run()
    assert (code, found(document)) == (4, ["DATABASE_BEHIND", "DEAD_LETTERS"])


def test_a_gap_and_damage_in_the_log_are_found_by_verifying(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stores.store(namespace)
    for number in range(3):
        store.commit([Mutation(kind="put", collection="a", id=str(number), value={})])
    assert run("--verify")[0] == 0
    true = store.changes

    def with_gap(*arguments: Any, **named: Any) -> Any:
        from dataclasses import replace

        page = true(*arguments, **named)
        return replace(page, operations=tuple(each for each in page.operations if each.id != "1"))

    monkeypatch.setattr(store, "changes", with_gap)
    assert found(run("--verify")[1]) == ["VERIFY_FAILED"]

    def damaged(*_: Any, **__: Any) -> Any:
        raise LogCorrupt("a frame does not read back")

    monkeypatch.setattr(store, "changes", damaged)
    assert found(run("--verify")[1]) == ["VERIFY_FAILED"]


def test_a_disk_nearly_full_is_named(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")(100 * 1024**3, 0, 1024**2)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert found(run()[1]) == ["DISK_NEARLY_FULL"]


def test_a_check_that_fails_hides_no_other_and_is_a_finding_itself(
    namespace: str, make_dead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    make_dead("a")
    monkeypatch.setattr(doctor, "lost_secrets", full)
    code, document = run()
    assert (code, found(document)) == (4, ["CHECK_FAILED", "DEAD_LETTERS"])
    assert document["findings"][0]["subject"] == "secrets"
    assert "No space left on device" in document["findings"][0]["message"]


def test_a_store_that_gives_no_answer_is_waited_for_once(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked_again(*_: Any, **__: Any) -> Any:
        raise AssertionError("each question to a stalled store waits as long again")

    monkeypatch.setattr(health, "probe", lambda names, **_: [probing._stalled(name) for name in names])
    for module in (keeping, doctor):
        monkeypatch.setattr(module, "store_of_known", asked_again)
    monkeypatch.setattr(keeping.compacting, "preview", asked_again)
    code, document = run("--verify")
    assert (code, found(document)) == (4, ["STORAGE_STALLED"])


def test_a_database_that_gives_no_answer_is_one_finding_and_no_traceback(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience: list[float] = []

    def silent(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        spent = budget.current()
        assert spent is not None, "every question of the doctor has an end"
        patience.append(spent.left_s())
        raise budget.late()

    with connection.execute_wrapper(silent):
        code, document = run()
    assert (code, found(document)) == (4, ["DATABASE_STALLED"])
    assert patience[0] > 1 > patience[-1], "who has not answered is not waited for as long again"
