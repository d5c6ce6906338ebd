"""Argon2 behind its gate: how many at once, one for each subject, refused in time, and nowhere near a service key."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import check_password, make_password

from apps.http import budget
from apps.http.errors import ApiError
from apps.keys import imported, memory_hard, passwords, rows
from apps.keys.memory_hard import Gate
from apps.keys.sessions import attempts
from tests.conftest import ApiClient

WAIT_S = 30.0


class Work:
    """Work that goes on until it is let go, and knows how much of it was going on at once."""

    def __init__(self) -> None:
        self.most = self.now = self.begun = 0
        self.go_on = threading.Event()
        self._changed = threading.Condition()

    def __call__(self) -> str:
        with self._changed:
            self.begun += 1
            self.now += 1
            self.most = max(self.most, self.now)
            self._changed.notify_all()
        assert self.go_on.wait(WAIT_S)
        with self._changed:
            self.now -= 1
        return "done"

    def wait_for(self, begun: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.begun >= begun, WAIT_S)


class Callers:
    """Threads that ask the gate for a turn each; their answers."""

    def __init__(self, gate: Gate, work: Work) -> None:
        self._gate, self._work = gate, work
        self._threads: list[threading.Thread] = []
        self.answers: list[str] = []

    def ask(self, subject: str) -> None:
        def run() -> None:
            try:
                self.answers.append(self._gate.run(subject, self._work))
            except ApiError as refused:
                assert refused.headers == {"Retry-After": "1"}
                self.answers.append(f"{refused.status} {refused.code}")

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

    def join(self) -> list[str]:
        self._work.go_on.set()
        for thread in self._threads:
            thread.join(WAIT_S)
        return self.answers


REFUSED = "503 SERVICE_OVERLOADED"


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.go_on.set()


def eventually(true: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_no_more_run_and_wait_at_once_than_stated_and_all_others_are_refused_at_once(work: Work) -> None:
    gate = Gate(running=2, waiting=3, deadline_s=WAIT_S)
    callers = Callers(gate, work)
    for number in range(20):
        callers.ask(f"account {number}")
    eventually(lambda: len(callers.answers) == 15)
    assert callers.answers == [REFUSED] * 15, "these were refused while the others were still at it"
    work.wait_for(2)
    assert sorted(callers.join()) == sorted([REFUSED] * 15 + ["done"] * 5)
    assert work.most == 2


def test_one_subject_has_one_at_a_time_and_nobodys_as_many_as_there_are(work: Work) -> None:
    gate = Gate(running=3, waiting=3, deadline_s=WAIT_S)
    callers = Callers(gate, work)
    for subject in ("ada", "ada", "", ""):
        callers.ask(subject)
    work.wait_for(3)
    time.sleep(0.05)
    assert work.begun == 3, "the second of ada's waits, though there is room"
    assert callers.join() == ["done"] * 4


def test_whoever_gets_no_turn_in_time_is_refused_and_what_has_begun_keeps_its_place(work: Work) -> None:
    gate = Gate(running=1, waiting=1, deadline_s=0.05)
    callers = Callers(gate, work)
    callers.ask("ada")
    work.wait_for(1)
    eventually(lambda: callers.answers == [REFUSED])
    for subject in ("ada", "bob"):
        with pytest.raises(ApiError):
            gate.run(subject, work)
    assert work.begun == 1, "the first still computes: nobody else may"
    work.go_on.set()
    eventually(lambda: gate._inside == 0)
    slow = Gate(running=1, waiting=1, deadline_s=WAIT_S)
    assert slow.run("ada", work) == "done"


def test_a_failure_gives_its_place_back() -> None:
    gate = Gate(running=1, waiting=0, deadline_s=WAIT_S)

    def fails() -> None:
        raise ValueError("no")

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            gate.run("ada", fails)
        eventually(lambda: gate._inside == 0)
    assert gate._subjects == set()


def test_a_request_waits_no_longer_than_its_own_deadline(work: Work) -> None:
    gate = Gate(running=1, waiting=1, deadline_s=WAIT_S)
    began = time.monotonic()
    with budget.spending(budget.Budget(time.monotonic() + 0.05)), pytest.raises(ApiError):
        gate.run("ada", work)
    assert time.monotonic() - began < WAIT_S / 2


def test_hashes_step_back_behind_the_rest_of_the_process() -> None:
    import os

    gate = Gate(running=1, waiting=0, deadline_s=WAIT_S)

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert gate.run("", priority) == max(memory_hard._NICE, priority())


def test_passwords_are_hashed_in_turn_within_a_request_and_at_once_outside_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns: list[str] = []

    class Noted(Gate):
        def run(self, subject: str, work: Callable[[], Any]) -> Any:
            turns.append(subject)
            return super().run(subject, work)

    monkeypatch.setattr(memory_hard, "_gate", lambda: Noted(running=1, waiting=1, deadline_s=WAIT_S))
    kept = make_password("a long enough pass phrase")
    assert kept.startswith("argon2$argon2id$") and turns == []
    with budget.spending(budget.Budget(time.monotonic() + WAIT_S)), passwords.of("ada's"):
        assert check_password("a long enough pass phrase", kept) and not check_password("another", kept)
    assert turns == ["ada's", "ada's"]


def test_a_name_that_is_nobodys_has_one_turn_at_a_time_as_a_persons_has(
    monkeypatch: pytest.MonkeyPatch, django_user_model: Any, db: None
) -> None:
    turns: list[str] = []

    class Noted(Gate):
        def run(self, subject: str, work: Callable[[], Any]) -> Any:
            turns.append(subject)
            return super().run(subject, work)

    monkeypatch.setattr(memory_hard, "_gate", lambda: Noted(running=1, waiting=1, deadline_s=WAIT_S))
    django_user_model.objects.create_user("ada", password="a long enough pass phrase")
    with budget.spending(budget.Budget(time.monotonic() + WAIT_S)):
        for name in ("ada", "nobody", "ada", "nobody"):
            assert attempts.signed_in(name, "wrong", address="192.0.2.1", now_ms=1) is None
    assert turns[0] == turns[2] != "" and turns[1] == turns[3] != "" and len(set(turns)) == 2


def test_whoever_waits_for_an_imported_keys_hash_holds_no_permit(
    monkeypatch: pytest.MonkeyPatch, db: None, work: Work
) -> None:
    given_back: list[bool] = []
    spent = budget.Budget(time.monotonic() + WAIT_S, lambda: given_back.append(True))
    row = rows.SecretRow._make([1, "argon2", b"", "kept", 0, None, "k", *[None] * 7])
    monkeypatch.setattr(imported, "computed", lambda subject, work: given_back == [True])
    with budget.spending(spent):
        assert imported._tried(row, "fdb_live_" + "1" * 48)


def test_the_parameters_are_those_that_are_stated() -> None:
    hasher = passwords.BoundedArgon2PasswordHasher()
    cost = hasher.params()
    assert (cost.memory_cost, cost.time_cost, cost.parallelism, str(cost.type)) == (19_456, 2, 1, "Type.ID")


def test_a_key_is_served_while_every_turn_is_taken(
    api: Callable[..., ApiClient], make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, work: Work
) -> None:
    gate = Gate(running=1, waiting=0, deadline_s=WAIT_S)
    monkeypatch.setattr(memory_hard, "_gate", lambda: gate)
    callers = Callers(gate, work)
    callers.ask("somebody")
    work.wait_for(1)
    assert api(make_key()).get("/v1/keys/current").status_code == 200
    assert callers.join() == ["done"]
