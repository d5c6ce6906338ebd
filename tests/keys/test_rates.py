"""The allowance of a key: counted exactly, shared by processes, told in headers, and none of anybody else's."""

import subprocess
import sys
from pathlib import Path

import pytest

from apps.keys import rates
from apps.keys.rates import BURST_S, PLACES, Rates


class Clock:
    def __init__(self):
        self.at = 1000.0

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def two_a_second(tmp_path, clock):
    return Rates(tmp_path / "keys.rates", 2, now=clock)


def test_a_burst_is_let_in_to_the_last_and_one_more_is_refused_with_the_wait(two_a_second):
    left = [two_a_second.take("k") for _ in range(2 * BURST_S)]
    assert not any(each.refused for each in left)
    assert [each.remaining for each in left] == list(range(2 * BURST_S - 1, -1, -1))
    over = two_a_second.take("k")
    assert (over.refused, over.remaining, over.wait_s, over.reset_s) == (True, 0, 1, BURST_S)
    assert over.headers == {
        "RateLimit-Limit": "20",
        "RateLimit-Remaining": "0",
        "RateLimit-Reset": "10",
        "Retry-After": "1",
    }


def test_the_allowance_grows_with_time_and_a_refusal_costs_nothing(two_a_second, clock):
    for _ in range(2 * BURST_S):
        two_a_second.take("k")
    for _ in range(100):
        assert two_a_second.take("k").refused
    clock.at += 0.5
    assert not two_a_second.take("k").refused
    assert two_a_second.take("k").refused
    clock.at += 1000
    assert two_a_second.take("k").remaining == 2 * BURST_S - 1, "never more than the burst is saved up"


def test_keys_have_allowances_of_their_own(two_a_second):
    for _ in range(2 * BURST_S + 1):
        two_a_second.take("a")
    assert two_a_second.take("a").refused
    assert not two_a_second.take("b").refused


def test_an_instant_of_an_earlier_boot_locks_nobody_out(two_a_second, clock):
    clock.at = 1_000_000.0
    for _ in range(2 * BURST_S):
        two_a_second.take("k")
    clock.at = 5.0
    assert not two_a_second.take("k").refused


def test_more_keys_than_places_are_still_bounded_each(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(rates, "PLACES", 4)
    monkeypatch.setattr(rates, "PROBES", 4)
    few = Rates(tmp_path / "few", 1, now=clock)
    let_in = sum(not few.take(f"k-{n % 8}").refused for n in range(400))
    assert 4 * BURST_S <= let_in <= 8 * BURST_S
    assert PLACES > 1000


def test_processes_share_the_allowance(tmp_path):
    program = (
        "import sys, pathlib, django; django.setup()\n"
        "from apps.keys.rates import Rates\n"
        "shared = Rates(pathlib.Path(sys.argv[1]), 20, now=lambda: 50.0)\n"
        "print(sum(not shared.take('k').refused for _ in range(150)))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "keys.rates")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()) for _ in range(2)]
    let_in = [int(each.communicate(timeout=60)[0]) for each in running]
    assert sum(let_in) == 20 * BURST_S


@pytest.fixture
def limited(monkeypatch, tmp_path, clock):
    allowances = Rates(tmp_path / "keys.rates", 1, now=clock)
    monkeypatch.setattr(rates, "shared", lambda: allowances)


def test_a_key_over_its_rate_is_refused_with_429_and_told_when_to_come_back(api, make_key, limited, clock):
    caller = api(make_key())
    answers = [caller.get("/v1/keys/current") for _ in range(BURST_S + 1)]
    assert [each.status_code for each in answers] == [200] * BURST_S + [429]
    assert answers[0]["RateLimit-Remaining"] == str(BURST_S - 1)
    assert answers[-1].json()["code"] == "RATE_LIMITED"
    assert (answers[-1]["Retry-After"], answers[-1]["RateLimit-Remaining"]) == ("1", "0")
    assert api(make_key()).get("/v1/keys/current").status_code == 200
    clock.at += 1
    assert caller.get("/v1/keys/current").status_code == 200


def test_refusals_count_as_requests_and_carry_the_headers(api, make_key, limited):
    caller = api(make_key(scopes=["audit:read"]))
    answers = [caller.get("/v1/keys") for _ in range(BURST_S + 1)]
    assert [each.status_code for each in answers] == [403] * BURST_S + [429]
    assert answers[3]["RateLimit-Limit"] == str(BURST_S)


def test_without_a_rate_nothing_is_counted_and_no_header_sent(api, settings):
    assert settings.RATE_LIMIT == 0
    rates.shared.cache_clear()
    assert rates.shared() is None
    assert "RateLimit-Limit" not in api().get("/v1/keys/current").headers
