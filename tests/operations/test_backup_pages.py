"""Backups in the console: made and verified in the background, once, told, audited. Cost: about half a second each."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.keys.audit.models import AuditEvent
from apps.keys.models import Operator
from apps.keys.principal import operator as principal
from apps.operations.models import UpkeepRun
from apps.operations.services import backups, turns, upkeep
from apps.operations.services.operators import Role, create_operator
from apps.operations.services.roles import ensure_roles
from apps.state import stores
from feltdb_engine import Mutation

PAGE, RUN, VERIFY = "/admin/backups/", "/admin/backups/run/", "/admin/backups/verify/"


@pytest.fixture
def folder(data_dir: Path, settings: Any) -> Path:
    settings.BACKUP_DIR = data_dir / "backups"
    return data_dir / "backups"


@pytest.fixture
def ended() -> Any:
    """A function that waits for what pages began."""

    def wait() -> None:
        for thread in threading.enumerate():
            if thread.name.startswith(("backup ", "verification of")):
                thread.join(60)

    yield wait
    wait()


def text(answer: Any) -> str:
    body: str = answer.content.decode()
    return body


@pytest.mark.django_db(transaction=True)
def test_a_backup_is_made_listed_verified_and_told_how_to_restore(
    console: Client, namespace: str, folder: Path, ended: Any
) -> None:
    assert "There is no backup yet" in text(console.get(PAGE))
    stores.store(namespace).commit([Mutation(kind="put", collection="a", id="1", value={})])
    answer = console.post(RUN, {"name": "friday", "reason": "before the upgrade"}, follow=True)
    assert "friday has begun" in text(answer)
    ended()
    run = UpkeepRun.objects.get(kind=UpkeepRun.Kind.BACKUP)
    assert (run.outcome, run.actor) == ("done", "human:admin"), run.message
    listed = text(console.get(PAGE))
    assert "friday" in listed and "1 namespace" in listed and "not yet" in listed
    asked = AuditEvent.objects.get(action="backup.asked")
    assert (asked.subject, asked.reason) == ("human:admin", "before the upgrade")
    assert AuditEvent.objects.get(action="backup.created").reason == "before the upgrade"

    one = f"{PAGE}one/?name=friday"
    shown = text(console.get(one))
    assert "manage.py backup restore friday --replace" in shown and "Nobody has verified it" in shown
    assert f"--namespace {namespace} --into" in shown
    assert "has begun" in text(console.post(VERIFY, {"name": "friday"}, follow=True))
    ended()
    assert "Every byte was what was written" in text(console.get(one)) and "whole, " in text(console.get(PAGE))

    log = next((folder / "friday/namespaces" / namespace / "log").iterdir())
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    console.post(VERIFY, {"name": "friday"})
    ended()
    assert log.name in text(console.get(one)) and "not whole" in text(console.get(PAGE))
    told = AuditEvent.objects.filter(action="backup.verified").order_by("id").values_list("outcome", "code")
    assert list(told) == [("done", ""), ("failed", "BACKUP_INVALID")]


@pytest.mark.django_db(transaction=True)
def test_pressing_twice_makes_one_and_the_page_says_that_one_is_at_work(
    console: Client, namespace: str, folder: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.operations.services.backups import databases

    entered, go_on, true = threading.Event(), threading.Event(), databases.snapshot

    def slowly(dest: Path, progress: Any) -> Any:
        progress(5 * 1024, 0)
        entered.set()
        assert go_on.wait(30)
        return true(dest, progress)

    monkeypatch.setattr(databases, "snapshot", slowly)
    try:
        assert console.post(RUN, {"name": "one"}).status_code == 302
        assert entered.wait(30)
        second = console.post(RUN, {"name": "two"})
        assert second.status_code == 409 and "Another backup is at work" in text(second)
        page = text(console.get(PAGE))
        assert "A backup is being made" in page and "5.0 KiB" in page and "Make the backup" not in page
        with pytest.raises(Exception, match="Another backup is at work"):
            backups.create(folder / "three", by=principal("tests"))
    finally:
        go_on.set()
    ended()
    assert [each.name for each in backups.available()] == ["one"]
    assert "A backup is being made" not in text(console.get(PAGE))
    assert AuditEvent.objects.filter(action="backup.asked").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_verification_that_is_pressed_twice_is_done_once(
    console: Client, namespace: str, folder: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.post(RUN, {"name": "one"})
    ended()
    entered, go_on, true = threading.Event(), threading.Event(), backups.verify_and_note

    def slowly(*args: Any, **kwargs: Any) -> Any:
        entered.set()
        assert go_on.wait(30)
        return true(*args, **kwargs)

    monkeypatch.setattr(backups, "verify_and_note", slowly)
    try:
        assert console.post(VERIFY, {"name": "one"}).status_code == 302
        assert entered.wait(30)
        second = console.post(VERIFY, {"name": "one"})
        assert second.status_code == 409 and "Another verification is at work" in text(second)
    finally:
        go_on.set()
    ended()
    assert [run.outcome for run in UpkeepRun.objects.filter(kind=UpkeepRun.Kind.VERIFICATION)] == ["done"]
    assert AuditEvent.objects.filter(action="backup.verification_asked").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_backup_whose_process_died_is_told_as_that_and_bars_no_other(
    console: Client, namespace: str, folder: Path, ended: Any
) -> None:
    UpkeepRun.objects.create(kind="backup", subject=upkeep.INSTANCE, actor="human:admin", started_at_ms=1)
    page = text(console.get(PAGE))
    assert "its process ended before it did" in page and "A backup is being made" not in page
    console.post(RUN, {"name": "again"})
    ended()
    assert list(UpkeepRun.objects.values_list("outcome", flat=True)) == ["done", "failed"]
    assert not turns.taken(turns.BACKUP)


@pytest.mark.django_db(transaction=True)
def test_what_cannot_be_begun_is_refused_on_the_page(
    console: Client, namespace: str, folder: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "there").mkdir(parents=True)
    for name, status, told in (
        ("../x", 422, "A backup&#x27;s name is"),
        ("", 422, "A backup&#x27;s name is"),
        ("there", 409, "is there already"),
    ):
        answer = console.post(RUN, {"name": name})
        assert answer.status_code == status and told in text(answer), (name, text(answer))
    gone = console.post(VERIFY, {"name": "gone"})
    assert gone.status_code == 409 and "There is no backup gone" in text(gone)
    assert console.post(VERIFY, {"name": "../x"}).status_code == 422
    for name in ("gone", "../x", ""):
        assert console.get(f"{PAGE}one/", {"name": name}).status_code == 404
    assert not UpkeepRun.objects.exists() and not AuditEvent.objects.filter(action="backup.asked").exists()
    assert "cannot be restored" in text(console.get(f"{PAGE}one/", {"name": "there"}))

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("the disk went away")

    monkeypatch.setattr("apps.operations.services.backups.databases.snapshot", broken)
    console.post(RUN, {"name": "fails"})
    ended()
    assert "failed: the disk went away" in text(console.get(PAGE)) and not (folder / "fails").exists()


def test_only_administrators_make_and_verify(console: Client, namespace: str, folder: Path) -> None:
    ensure_roles()
    create_operator(name="olga", password="correct horse battery", role=Role.OPERATOR, by=principal("tests"))
    client = Client()
    client.force_login(Operator.objects.get(username="olga"))
    assert client.get(PAGE).status_code == 200 and "Make the backup" not in text(client.get(PAGE))
    for address in (RUN, VERIFY):
        assert client.post(address, {"name": "x"}).status_code == 403
    assert not folder.exists()


def test_of_many_backups_only_those_that_are_shown_are_read(
    console: Client, namespace: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.operations.console import backups as pages
    from apps.operations.services.backups import bundle

    for number in range(40):
        (folder / f"b{number:02}").mkdir(parents=True)
        os.utime(folder / f"b{number:02}", (1_000 + number, 1_000 + number))
    read = []
    true = bundle.read
    monkeypatch.setattr(bundle, "read", lambda path: [read.append(path.name), true(path)][1])
    page = text(console.get(PAGE))
    assert read == [f"b{number:02}" for number in range(39, 39 - pages.MAX_SHOWN, -1)]
    assert "of 40" in page
