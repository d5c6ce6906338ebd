"""What a process may go on trusting: leases on the database's mark, changes that move it, and the end of all trust."""

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.keys import limits, services, trust, verify
from apps.keys.models import ApiKey, RevocationMark
from apps.keys.principal import operator
from apps.keys.trust import Lease, Moment

LIFE_NS = 1_000
ROOT = operator("tests")
on_a_shared_database = pytest.mark.skipif("connection.vendor == 'sqlite'", reason="no other host can share the file")


class Database:
    """A mark and a clock; each question takes some of its time and is counted."""

    def __init__(self) -> None:
        self.mark, self.now_ns, self.asked, self.takes_ns = 1, 10**9, 0, 0

    def ask(self) -> int:
        self.asked += 1
        self.now_ns += self.takes_ns
        return self.mark

    def lease(self) -> Lease:
        return Lease(self.ask, clock_ns=lambda: self.now_ns, life_ns=LIFE_NS)


def test_a_mark_is_asked_for_once_in_half_a_lease_however_often_it_is_wanted() -> None:
    database = Database()
    lease = database.lease()
    for _ in range(499):
        database.now_ns += 1
        assert lease.mark() == 1
    assert database.asked == 1
    database.now_ns += 2
    lease.mark()
    assert database.asked == 2


def test_no_mark_is_taken_for_true_at_or_after_the_end_of_its_lease() -> None:
    database = Database()
    lease = database.lease()
    lease.mark()
    database.mark, database.now_ns = 2, database.now_ns + LIFE_NS
    assert lease.mark() == 2


def test_a_lease_is_counted_from_before_the_question_however_long_the_answer_took() -> None:
    database = Database()
    lease = database.lease()
    database.takes_ns = LIFE_NS
    lease.mark()  # the answer comes when the lease is over
    database.takes_ns = 0
    database.mark = 2
    assert lease.mark() == 2


def test_a_question_that_fails_leaves_no_lease_and_the_next_caller_asks() -> None:
    database = Database()
    answers: list[Callable[[], int]] = [lambda: 1 // 0, lambda: 7]
    lease = Lease(lambda: answers.pop(0)(), clock_ns=lambda: database.now_ns, life_ns=LIFE_NS)
    with pytest.raises(ZeroDivisionError):
        lease.mark()
    assert lease.mark() == 7


def test_while_one_caller_asks_anew_the_others_go_on_until_the_lease_ends_and_then_ask_for_themselves() -> None:
    database = Database()
    asking, answer = threading.Event(), threading.Event()
    slow: list[bool] = []

    def ask() -> int:
        if slow and threading.current_thread() is first:
            asking.set()
            assert answer.wait(30)
        return database.ask()

    lease = Lease(ask, clock_ns=lambda: database.now_ns, life_ns=LIFE_NS)
    first = threading.Thread(target=lease.mark)
    lease.mark()
    slow.append(True)
    database.now_ns += LIFE_NS // 2
    first.start()
    assert asking.wait(30)
    database.mark = 2
    assert (lease.mark(), database.asked) == (1, 1), "somebody waited or asked beside the one that asks"
    database.now_ns += LIFE_NS // 2
    assert lease.mark() == 2, "the lease is over: who asks does not matter"
    answer.set()
    first.join()


def test_who_takes_rights_away_waits_longer_than_any_lease_lasts_by_any_hosts_clock() -> None:
    assert limits.OUTLIVE_MS * 10 >= limits.LEASE_MS * 11


@pytest.mark.parametrize("other", [(2, 1, 0.0), (1, 2, 0.0), (1, 1, float(limits.TRUST_S)), None])
def test_what_was_read_before_a_change_here_or_elsewhere_or_long_ago_is_not_trusted(other: Any) -> None:
    then = Moment(1, 1, 0.0)
    assert then.holds(Moment(1, 1, limits.TRUST_S - 0.001))
    assert not then.holds(None if other is None else Moment(*other))


def test_a_change_made_with_sql_alone_is_seen_once_trust_ends(
    make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    issued, now = make_key(), services.utc_now()
    assert verify.principal_of(issued.secret, now=now) is not None
    ApiKey.objects.filter(pk=issued.key.id).update(revoked_at=now, revoked_by="by hand")
    monkeypatch.setattr(trust, "TRUST_S", 0)
    assert verify.principal_of(issued.secret, now=now) is None


@on_a_shared_database
def test_a_change_moves_the_mark_in_its_own_transaction_and_never_to_one_there_was(
    make_key: Callable[..., Any],
) -> None:
    seen = {trust._ask_mark()}
    for _ in range(5):
        issued = make_key()
        services.rotate_key(issued.key.id, by=ROOT, grace=timedelta(hours=1))
        seen.add(trust._ask_mark())
        services.end_old_secret(issued.key.id, by=ROOT)
        seen.add(trust._ask_mark())
        services.revoke_key(issued.key.id, by=ROOT)
        seen.add(trust._ask_mark())
    assert len(seen) == 16
    before = trust._ask_mark()
    with pytest.raises(RuntimeError), trust.shrinking():
        assert trust._ask_mark() != before
        raise RuntimeError
    assert trust._ask_mark() == before, "a change that was not committed need not be noticed"
    assert RevocationMark.objects.count() == 1


@on_a_shared_database
def test_another_hosts_revocation_is_seen_by_the_mark_alone(
    make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database()
    monkeypatch.setattr(trust, "lease", Lease(trust._ask_mark, clock_ns=lambda: database.now_ns, life_ns=LIFE_NS))
    issued, now = make_key(), services.utc_now()
    assert verify.principal_of(issued.secret, now=now) is not None
    # What another host's service does, without this host's epoch.
    trust._move_mark()
    ApiKey.objects.filter(pk=issued.key.id).update(revoked_at=now, revoked_by="another host")
    assert verify.principal_of(issued.secret, now=now) is not None, "the lease was not used: this would prove nothing"
    database.now_ns += LIFE_NS
    assert verify.principal_of(issued.secret, now=now) is None


def test_only_a_shared_database_is_asked_and_only_it_is_waited_for(
    db: None, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(trust, "lease", Lease(trust._ask_mark, clock_ns=lambda: 0))
    monkeypatch.setattr(trust, "OUTLIVE_MS", limits.OUTLIVE_MS)
    monkeypatch.setattr("time.sleep", waits.append)
    shared = connection.vendor != "sqlite"
    with django_assert_num_queries(1 if shared else 0):
        assert trust.present() is not None
    with trust.shrinking():
        pass
    assert waits == ([limits.OUTLIVE_MS / 1000] if shared else [])


def test_no_service_takes_rights_away_under_this_hosts_epoch_alone() -> None:
    """The ring of signing keys is a file of one data directory: no other host reads it."""
    moving = {str(path) for path in Path("apps").rglob("*.py") if ".moving()" in path.read_text("utf-8")}
    assert moving == {"apps/keys/grants/keyring.py", "apps/keys/trust.py"}
