"""When a key and its rights were used: noted by requests, written by somebody else, at most once a minute."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from apps.keys import bookkeeping, services, verify
from apps.keys.limits import FLUSH_ROWS, LAST_USED_STEP_S
from apps.keys.models import ApiKey, KeyUse
from tests.conftest import ApiClient

NOW = services.utc_now()
STEP = timedelta(seconds=LAST_USED_STEP_S)


def last_use(key: ApiKey) -> Any:
    return ApiKey.objects.get(pk=key.id).last_used_at


def uses(key: ApiKey) -> dict[str, Any]:
    return {use.scope: (use.first_at, use.last_at) for use in KeyUse.objects.filter(key=key)}


def test_a_use_is_written_at_most_once_in_the_stated_time_over_all_processes(make_key: Callable[..., Any]) -> None:
    key = make_key().key
    instants = ((timedelta(0), NOW), (STEP / 2, NOW), (STEP, NOW + STEP), (STEP * 1.5, NOW + STEP))
    for other_process in (False, True):
        for later, written in instants:
            if other_process:
                bookkeeping.forget_all()
                later, written = later + STEP * 10, written + STEP * 10
            bookkeeping.note_use(key.id, now=NOW + later)
            bookkeeping.note_use(key.id, "state:read", now=NOW + later)
            bookkeeping.flush(now=NOW + later)
            assert last_use(key) == written
            assert uses(key) == {"state:read": (NOW, written)}


def test_a_request_notes_the_key_and_the_scope_its_route_asks_for_and_writes_nothing(
    api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    issued = make_key(scopes=["keys:admin", "grants:write", "state:read"])
    client = api(issued)
    assert client.get("/v1/keys").status_code == client.get("/v1/keys/current").status_code == 200
    assert client.get("/v1/audit").status_code == 403
    assert last_use(issued.key) is None and uses(issued.key) == {}
    bookkeeping.flush(now=services.utc_now())
    assert last_use(issued.key) is not None and set(uses(issued.key)) == {"keys:admin"}


def test_a_refused_key_counts_as_no_use(make_key: Callable[..., Any]) -> None:
    issued = make_key(expires_at=NOW, now=NOW - timedelta(days=1))
    assert verify.principal_of(issued.secret, now=NOW) is None
    bookkeeping.flush(now=NOW)
    assert last_use(issued.key) is None


def test_authenticating_a_key_that_is_known_asks_the_database_nothing_however_long_ago_it_was_used(
    make_key: Callable[..., Any], django_assert_num_queries: Any
) -> None:
    secret = make_key().secret
    assert verify.principal_of(secret, now=NOW)
    with django_assert_num_queries(0):
        assert verify.principal_of(secret, now=NOW + STEP * 100)


def test_what_a_busy_database_does_not_take_is_written_later(
    make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key().key
    bookkeeping.note_use(key.id, now=NOW)

    def busy(*_: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(bookkeeping, "_write_uses", busy)
        bookkeeping.flush(now=NOW)
    assert last_use(key) is None
    bookkeeping.flush(now=NOW)
    assert last_use(key) == NOW


def test_many_uses_are_written_in_small_transactions(
    make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key().key
    for number in range(FLUSH_ROWS + 1):
        bookkeeping.note_use(key.id, f"scope {number}", now=NOW)
    sizes = []
    write = bookkeeping._write_uses
    monkeypatch.setattr(bookkeeping, "_write_uses", lambda batch: (sizes.append(len(batch)), write(batch)))
    bookkeeping.flush(now=NOW)
    assert sizes == [FLUSH_ROWS, 1] and len(uses(key)) == FLUSH_ROWS + 1


def test_who_is_no_key_leaves_no_use(db: None) -> None:
    bookkeeping.note_use("no-key", "state:read", now=NOW)
    bookkeeping.flush(now=NOW)
    assert not KeyUse.objects.exists()


def test_what_is_noted_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookkeeping, "MAX_NOTED_USES", 3)
    for number in range(10):
        bookkeeping.note_use(f"k{number}", now=NOW)
        assert len(bookkeeping._noted) <= 3 and len(bookkeeping._due) <= 3


@pytest.mark.django_db(transaction=True)
def test_the_writer_writes_by_itself_and_what_is_left_when_it_is_stopped(make_key: Callable[..., Any]) -> None:
    by_itself, at_the_end = make_key().key, make_key().key
    written = threading.Event()
    flush = bookkeeping.flush

    def flushed(**members: Any) -> None:
        flush(**members)
        if ApiKey.objects.get(pk=by_itself.id).last_used_at is not None:
            written.set()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bookkeeping, "flush", flushed)
        bookkeeping.note_use(by_itself.id, now=NOW)
        writer = bookkeeping.Writer(every_s=0.05)
        writer.start()
        assert written.wait(30)
        writer.stop(30)
        writer = bookkeeping.Writer(every_s=3600)
        writer.start()
        bookkeeping.note_use(at_the_end.id, now=NOW)
        writer.stop(30)
    assert last_use(at_the_end) == NOW
    assert connection.in_atomic_block is False
