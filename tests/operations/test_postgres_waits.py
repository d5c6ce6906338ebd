"""PostgreSQL that is there and says nothing: whoever has a deadline is told by it, and nobody else is hurried."""

import os
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from django.db import OperationalError
from django.db.utils import ConnectionHandler

from apps.http import budget
from apps.http.budget import Budget
from apps.operations.statements import is_late
from feltsite.postgres.base import ANSWER_S, LEAST_CONNECT_S, DatabaseWrapper
from tests.operations.faults import Link, eventually

pytestmark = pytest.mark.django_db

POSTGRES = os.environ.get("FELTDB_TEST_POSTGRES_URL", "postgres://root@127.0.0.1:5432/test")
FOR_EVER_S = 30.0
"""What a wait without an end is told by; those that end take a second or three."""


@pytest.fixture
def link() -> Iterator[Link]:
    found = urlsplit(POSTGRES)
    made = Link(found.hostname or "127.0.0.1", found.port or 5432)
    yield made
    made.close()


@pytest.fixture
def through(link: Link) -> Iterator[DatabaseWrapper]:
    """A connection of ours through the link, as the settings make them."""
    found = urlsplit(POSTGRES)
    settings = {
        "ENGINE": "feltsite.postgres",
        "NAME": found.path[1:],
        "USER": unquote(found.username or ""),
        "PASSWORD": unquote(found.password or ""),
        "HOST": "127.0.0.1",
        "PORT": link.port,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 60},
    }
    made = ConnectionHandler({"default": settings})["default"]
    assert isinstance(made, DatabaseWrapper)
    yield made
    link.mend()
    made.close()


def ask(connection: DatabaseWrapper, sql: str = "SELECT 1") -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def within(seconds: float) -> Any:
    return budget.spending(Budget(time.monotonic() + seconds))


def test_a_statement_to_a_silent_server_ends_with_the_deadline_and_the_connection_is_made_anew(
    link: Link, through: DatabaseWrapper
) -> None:
    first = ask(through, "SELECT pg_backend_pid()")
    link.fall_silent()
    began = time.monotonic()
    with within(0.3), pytest.raises(OperationalError, match="said nothing in time"):
        ask(through)
    took_s = time.monotonic() - began
    assert 0.3 + ANSWER_S <= took_s < FOR_EVER_S
    link.mend()
    through.close_if_unusable_or_obsolete()
    assert ask(through, "SELECT pg_backend_pid()") != first, "nobody knows what the old one stood at"


def test_a_transaction_that_is_cut_off_so_is_left_in_order(link: Link, through: DatabaseWrapper) -> None:
    from django.db.transaction import Atomic

    ask(through)
    atomic = Atomic(using="default", savepoint=False, durable=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("django.db.transaction.get_connection", lambda using: through)
        link.fall_silent()
        with within(0.3), pytest.raises(OperationalError), atomic:
            ask(through)
        link.mend()
    assert not through.in_atomic_block and ask(through) == 1


def test_connecting_to_a_silent_server_ends_with_the_deadline_not_with_the_settings_minute(
    link: Link, through: DatabaseWrapper
) -> None:
    link.fall_silent()
    began = time.monotonic()
    with within(0.3), pytest.raises(OperationalError) as raised:
        ask(through)
    assert LEAST_CONNECT_S * 0.9 <= time.monotonic() - began < FOR_EVER_S
    assert is_late(raised.value), "it is told as a database that hangs, not as one that is away"


def test_a_kept_connection_that_says_nothing_is_not_usable_and_costs_a_second_to_find_out(
    link: Link, through: DatabaseWrapper
) -> None:
    ask(through)
    link.fall_silent()
    began = time.monotonic()
    assert not through.is_usable()
    assert time.monotonic() - began < FOR_EVER_S
    link.mend()
    through.close_if_unusable_or_obsolete()
    assert ask(through) == 1


def test_who_has_no_deadline_waits_a_silence_out(link: Link, through: DatabaseWrapper) -> None:
    ask(through)
    answers: list[Any] = []
    through.inc_thread_sharing()
    link.fall_silent()
    asking = threading.Thread(target=lambda: answers.append(ask(through)), daemon=True)
    asking.start()
    asking.join(2 * ANSWER_S)
    assert asking.is_alive() and not answers
    link.mend()
    eventually(lambda: answers == [1], FOR_EVER_S, "it was answered after all")


def test_an_answer_in_time_leaves_the_connection_as_it_is(through: DatabaseWrapper) -> None:
    first = ask(through, "SELECT pg_backend_pid()")
    with within(FOR_EVER_S):
        assert ask(through, "SELECT pg_backend_pid()") == first
    assert ask(through, "SELECT pg_backend_pid()") == first
