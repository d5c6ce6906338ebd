"""Nobody learns by the clock whether a key's id is known: unknown ids and wrong secrets take turns, and are compared.

First by what is done: the same statements, digests and comparisons, and the same lines of code, as often. Then by the
clock. What would be noticed is derived from the same run: samples are relabelled at random within each pair, many
times, and a difference counts only where it is beyond what relabelling gives and beyond `MEAN_US`, far under what a
network lets anybody see. A machine that does other work gives differences of its own, but not the same one again and
again: it takes `ROUNDS` that all notice the same. In process it is processors' time that is compared, this thread's and
that of the database's process that works for it. Over HTTP the clock on the wall, through a real server.
"""

import hmac
import http.client
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.keys import services, token, verify
from apps.keys.clock import now_ms
from apps.keys.models import Operator
from apps.keys.principal import operator
from apps.keys.sessions import services as sessions
from demo.instance import Instance

SAMPLES = 20_000
MEAN_US = 20.0
PLANTED_US = 30.0
ROUNDS = 3
PAIRS = 400
MOST_PAIRS = 4_000
STEADY_US = 8.0
"""A round goes on, to `MOST_PAIRS`, until chance moves the mean by no more than this."""
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
RELABELLINGS = 100
TRIM = 0.1
"""The share of pairs at either end, by how far apart they are, that the means leave out: the machine did other work."""

Pair = tuple[float, float]


def paired(measure: Callable[[str], float], one: Iterator[str], other: Iterator[str], samples: int) -> list[Pair]:
    """Return microseconds of `one` and `other`, taken in turns and in an order that is drawn each time."""
    draw = random.Random(20_261_202)
    pairs = []
    for _ in range(samples):
        if draw.random() < 0.5:
            first = measure(next(one))
            pairs.append((first, measure(next(other))))
        else:
            second = measure(next(other))
            pairs.append((measure(next(one)), second))
    return pairs


def differences(pairs: list[Pair]) -> dict[str, float]:
    """Return mean and percentiles of the first minus those of the second, in microseconds.

    The mean is of what lies between the two of a pair, so that what the machine does besides, slowly, is in both.
    """
    apart = sorted(one - other for one, other in pairs)
    cut = int(len(apart) * TRIM)
    found = {"mean": statistics.fmean(apart[cut : len(apart) - cut])}
    for name, values in (("one", sorted(pair[0] for pair in pairs)), ("other", sorted(pair[1] for pair in pairs))):
        for percentile in PERCENTILES:
            value = values[len(values) * percentile // 100]
            found[f"p{percentile}"] = value if name == "one" else found[f"p{percentile}"] - value
    return found


def noticed(pairs: list[Pair]) -> dict[str, float]:
    """Return the differences that tell the two apart: beyond chance, as this very run gives it, and `MEAN_US`."""
    most = by_chance(pairs, RELABELLINGS)
    found = differences(pairs)
    print({name: f"{value:.1f} (chance {most[name]:.1f})" for name, value in found.items()})
    return {name: value for name, value in found.items() if abs(value) > max(1.5 * most[name], MEAN_US)}


def by_chance(pairs: list[Pair], relabellings: int) -> dict[str, float]:
    """Return how far apart the two are at most where it is drawn which is which."""
    draw = random.Random(1)
    most: dict[str, float] = {}
    for _ in range(relabellings):
        for name, value in differences([pair if draw.random() < 0.5 else pair[::-1] for pair in pairs]).items():
            most[name] = max(most.get(name, 0.0), abs(value))
    return most


def told_apart(take: Callable[[int], list[Pair]], *, most_pairs: int = MOST_PAIRS) -> set[str]:
    """Return what every one of `ROUNDS` fresh rounds notices, with its direction; none where one notices nothing."""
    left: set[str] | None = None
    for _ in range(ROUNDS):
        pairs = take(PAIRS)
        while len(pairs) < most_pairs and by_chance(pairs, 20)["mean"] > STEADY_US:
            pairs += take(PAIRS)
        seen = {f"{name} {'later' if value > 0 else 'sooner'}" for name, value in noticed(pairs).items()}
        left = seen if left is None else left & seen
        if not left:
            return set()
    return left or set()


def wrong_secrets(key_ids: list[str]) -> Iterator[str]:
    while True:
        yield token.new_token(random.choice(key_ids), "live").text


def unknown_ids() -> Iterator[str]:
    while True:
        yield token.new_token(token.new_key_id(), "live").text


def database_ns() -> Callable[[], int]:
    """Return what tells the processor's time of the database's process for this connection; 0 where there is none."""
    if connection.vendor != "postgresql":
        return lambda: 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        process = Path(f"/proc/{cursor.fetchone()[0]}")
    assert "postgres" in (process / "comm").read_text(), "these tests need the database on this machine"
    return lambda: int((process / "schedstat").read_text().split()[0])


def verified_us(worked_ns: Callable[[], int]) -> Callable[[str], float]:
    """Return a function that gives the processors' time of finding out that a token is nobody's."""

    def measure(text: str) -> float:
        now = services.utc_now()
        began, there = time.thread_time_ns(), worked_ns()
        assert verify.principal_of(text, now=now) is None
        there = worked_ns() - there
        return (time.thread_time_ns() - began + there) / 1000

    return measure


def slower_for(key_ids: list[str], measure: Callable[[str], float]) -> Callable[[str], float]:
    """Return `measure` of a server that does a little more where the key is known."""

    def slower(text: str) -> float:
        given = token.parse(text)
        late = PLANTED_US if given is not None and given.key_id in key_ids else 0.0
        return measure(text) + late

    return slower


def done_for(text: str) -> Counter[Any]:
    """Return what finding out that the token is nobody's does: statements, digests, comparisons, lines of code."""
    done: Counter[Any] = Counter()
    digest, compare = hmac.digest, hmac.compare_digest

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if "/apps/keys/" not in frame.f_code.co_filename and "/django/db/" not in frame.f_code.co_filename:
            return None
        done[frame.f_code.co_filename.rpartition("/")[2], frame.f_code.co_name, frame.f_lineno] += event == "line"
        return line

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            done[name, *(len(each) for each in given if isinstance(each, bytes))] += 1
            return call(*given)

        return counted

    now = services.utc_now()
    with pytest.MonkeyPatch.context() as patched, CaptureQueriesContext(connection) as queries:
        patched.setattr(hmac, "digest", noted("digest", digest))
        patched.setattr(hmac, "compare_digest", noted("compare", compare))
        before = sys.gettrace()
        sys.settrace(line)
        try:
            assert verify.principal_of(text, now=now) is None
        finally:
            sys.settrace(before)
    done.update(["statement" for _ in queries.captured_queries])
    return done


@pytest.fixture
def rotated(make_key: Callable[..., Any]) -> list[str]:
    """Ids of keys within the grace of their old secrets, made between others."""
    ids = [make_key().key.id for _ in range(10)]
    for key_id in ids:
        services.rotate_key(key_id, by=operator("tests"), grace=timedelta(hours=1))
    return ids


@pytest.fixture
def single(make_key: Callable[..., Any]) -> list[str]:
    """Ids of keys with one secret each, as many."""
    return [make_key().key.id for _ in range(10)]


def test_the_same_is_done_for_every_token_that_is_nobodys(
    rotated: list[str], single: list[str], make_key: Callable[..., Any]
) -> None:
    ended, revoked = make_key(), make_key()
    services.revoke_key(revoked.key.id, by=operator("tests"))
    type(ended.key).objects.filter(pk=ended.key.id).update(expires_at=services.utc_now())
    done_for(next(unknown_ids()))  # what is read once for a process is read
    unknown = done_for(next(unknown_ids()))
    assert unknown["statement"] == 1
    assert sum(times for what, times in unknown.items() if what[0] == "digest") == 1
    assert sum(times for what, times in unknown.items() if what[0] == "compare") == 2
    for ids in (rotated, single, [ended.key.id], [revoked.key.id]):
        assert done_for(next(wrong_secrets(ids))) == unknown
    for _ in range(20):
        assert done_for(next(unknown_ids())) == unknown, "wherever it would stand among those there are"


def test_the_same_is_done_for_every_sessions_token_that_is_nobodys(db: None) -> None:
    def opened(**members: Any) -> str:
        return sessions.open_session(ada, now_ms=now_ms(), **members).session.pk

    def wrong(session_id: str) -> str:
        return token.new_token(session_id, sessions.ENVIRONMENT).text

    ada = Operator.objects.create_superuser("ada")
    ids = [opened(), opened(scopes=["state:read"], namespaces=["default"])]
    ended, void = sessions.HumanSession.objects.get(pk=opened()), opened()
    sessions.end(ended, by=operator("tests"), now_ms=now_ms())
    sessions.HumanSession.objects.filter(pk=void).update(person_mark="another password's")
    done_for(wrong(token.new_key_id()))  # what is read once for a process is read
    unknown = done_for(wrong(token.new_key_id()))
    assert unknown["statement"] == 1
    assert sum(times for what, times in unknown.items() if what[0] == "compare") == 1
    for session_id in (*ids, ended.pk, void, *(token.new_key_id() for _ in range(20))):
        assert done_for(wrong(session_id)) == unknown


def test_in_process_an_unknown_id_takes_as_long_as_a_wrong_secret(rotated: list[str], single: list[str]) -> None:
    measure = verified_us(database_ns())
    assert told_apart(lambda n: paired(measure, wrong_secrets(rotated + single), unknown_ids(), n)) == set()


def test_in_process_a_rotated_key_takes_as_long_as_one_that_is_not(rotated: list[str], single: list[str]) -> None:
    measure = verified_us(database_ns())
    assert told_apart(lambda n: paired(measure, wrong_secrets(rotated), wrong_secrets(single), n)) == set()


def test_a_difference_of_the_kind_this_is_about_would_be_noticed(single: list[str]) -> None:
    """What other work on the machine may hide once is seen when looked for again."""
    measure = slower_for(single, verified_us(database_ns()))
    assert any(told_apart(lambda n: paired(measure, wrong_secrets(single), unknown_ids(), n)) for _ in range(4))


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_in_process_20_000_samples_each_tell_nothing(rotated: list[str], single: list[str]) -> None:
    measure = verified_us(database_ns())
    pairs = paired(measure, wrong_secrets(rotated + single), unknown_ids(), SAMPLES)
    assert noticed(pairs) == {}
    assert abs(differences(pairs)["mean"]) < MEAN_US


def asked_us(connection: http.client.HTTPConnection) -> Callable[[str], float]:
    """Return a function that gives the microseconds until a request with the token is refused."""

    def measure(text: str) -> float:
        began = time.perf_counter_ns()
        connection.request("GET", "/v1/keys/current", headers={"Authorization": f"Bearer {text}"})
        answer = connection.getresponse()
        answer.read()
        took = (time.perf_counter_ns() - began) / 1000
        assert answer.status == 401
        return took

    return measure


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_over_http_20_000_samples_each_tell_nothing(tmp_path: Path) -> None:
    with Instance(tmp_path, WEB_WORKERS="1", DATABASE_URL="") as instance:
        ids = [instance.new_key("state:read")[9:21] for _ in range(3)]
        instance.start_server()
        with closing(http.client.HTTPConnection("127.0.0.1", instance.port, timeout=30)) as connection:
            measure = asked_us(connection)
            paired(measure, wrong_secrets(ids), unknown_ids(), 500)  # warm
            pairs = paired(measure, wrong_secrets(ids), unknown_ids(), SAMPLES)
    assert noticed(pairs) == {}
    assert abs(differences(pairs)["mean"]) < MEAN_US
