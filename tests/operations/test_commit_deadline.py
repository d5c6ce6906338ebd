"""A deadline against a commit: the caller is told the truth, or that it is open, and the transaction id settles it."""

import fcntl
import os
import threading
import time
from typing import Any

import pytest
from django.db import connection

from apps.state import stores

pytestmark = pytest.mark.django_db(transaction=True)


def transaction(name: str) -> dict[str, Any]:
    return {"transactionId": name, "operations": [{"collection": "held", "id": name, "value": {"n": 1}}]}


@pytest.fixture
def short(settings: Any, namespace: str) -> None:
    """A short deadline; the store is made first, which takes longer than that."""
    stores.store(namespace)
    settings.REQUEST_DEADLINE_MS = 400


def test_a_force_that_outlasts_the_deadline_is_told_true_or_unknown_and_the_id_settles_it(
    short: None, api: Any, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = api()
    assert client.post_json("/v1/transactions", transaction("first")).status_code == 201
    log = stores.store(namespace)._core.log
    force = log.force

    def slow(position: int) -> None:
        time.sleep(1.0)
        force(position)

    monkeypatch.setattr(log, "force", slow)
    answers: dict[str, Any] = {}

    secret = client.defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")

    def send(name: str) -> None:
        try:
            answers[name] = api(secret).post_json("/v1/transactions", transaction(name))
        finally:
            connection.close()

    threads = [threading.Thread(target=send, args=(f"held-{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    monkeypatch.undo()
    assert len(answers) == 3
    for name, answer in answers.items():
        body = answer.json()
        if answer.status_code == 503:
            assert (body["code"], body["committed"], body["transactionId"]) == ("COMMIT_UNKNOWN", "unknown", name)
            assert answer["Retry-After"] == "1"
        else:
            assert (answer.status_code, body["status"]) == (201, "committed"), body
        settled = client.get(f"/v1/transactions/{name}")
        assert (settled.status_code, settled.json()["status"]) == (200, "committed")
        again = client.post_json("/v1/transactions", transaction(name))
        assert (again.status_code, again.json()["duplicate"]) == (200, True)


def test_a_turn_held_by_a_stopped_process_is_refused_at_the_deadline_and_nothing_was_written(
    short: None, api: Any, namespace: str
) -> None:
    client = api()
    assert client.put_json("/v1/collections/held/1", {"n": 1}).status_code == 201
    turn = os.readlink(f"/proc/self/fd/{stores.store(namespace)._core.turn._file._fd}")
    with open(turn, "rb+") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        started = time.monotonic()
        refused = client.put_json("/v1/collections/held/1", {"n": 2})
        assert 0.3 < time.monotonic() - started < 20
        read = client.get("/v1/collections/held/1")
    assert (refused.status_code, refused["Retry-After"]) == (503, "1")
    body = refused.json()
    assert (body["code"], body["message"]) == ("SERVICE_OVERLOADED", "request exceeded the server deadline")
    assert (body["reason"], body["committed"]) == ("DEADLINE", False)
    assert read.json()["value"] == {"n": 1}, "reads go on"
    assert client.put_json("/v1/collections/held/1", {"n": 3}).json()["version"] == 2
