"""A served thread's connection to the database: kept while it can be used, else dropped at the end of a request."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection
from django.db.backends.signals import connection_created

from apps.operations import connections

pytestmark = pytest.mark.django_db(transaction=True)

SIGNALS = (request_started, request_finished, connection_created)


@pytest.fixture
def looked_after() -> Iterator[None]:
    """As in a process that serves."""
    before = [list(signal.receivers) for signal in SIGNALS]
    connections.look_after_them()
    yield
    for signal, receivers in zip(SIGNALS, before, strict=True):
        signal.receivers = receivers
        signal.sender_receivers_cache.clear()


def in_a_thread(work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a thread of its own, which has a connection of its own."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def statement() -> Any:
    """Run a statement; return the driver's connection that it ran on."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return connection.connection


def a_request() -> None:
    """Begin and end one."""
    request_started.send(None)
    request_finished.send(None)


def test_a_connection_serves_request_after_request_and_is_asked_before_its_next_statement(looked_after: None) -> None:
    def work() -> Any:
        first = statement()
        known = connection.health_check_done
        a_request()
        return known, connection.health_check_done, statement() is first

    assert in_a_thread(work) == (True, False, True)


def test_a_broken_connection_is_closed_at_the_end_of_the_request(
    looked_after: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> Any:
        first = statement()
        connection.errors_occurred = True
        connection.is_usable = lambda: False  # type: ignore[method-assign]
        a_request()
        closed = connection.connection is None
        del connection.is_usable
        return closed, statement() is first

    assert in_a_thread(work) == (True, False)


def test_a_connection_left_inside_a_transaction_is_closed_at_the_end_of_the_request(looked_after: None) -> None:
    def work() -> Any:
        statement()
        connection.set_autocommit(False)
        a_request()
        return connection.connection is None

    assert in_a_thread(work) is True


def test_the_end_of_a_request_is_of_its_own_thread_alone(looked_after: None) -> None:
    def work() -> Any:
        first = statement()
        connection.errors_occurred = True
        in_a_thread(lambda: (statement(), a_request()))
        return connection.errors_occurred, connection.connection is first

    assert in_a_thread(work) == (True, True)


def test_django_does_not_look_as_well(looked_after: None) -> None:
    for signal in (request_started, request_finished):
        assert close_old_connections not in [receiver() for _, receiver, *_ in signal.receivers]
