"""Due times: the syntax, the time zones, and what holds where the clocks change."""

from datetime import UTC, datetime

import pytest

from apps.workloads import cron
from apps.workloads.cron import Unreadable


def ms(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def utc(instants):
    return [datetime.fromtimestamp(at / 1000, tz=UTC).strftime("%d %H:%M") for at in instants]


@pytest.mark.parametrize(
    ("expression", "after", "due"),
    [
        # Fixed times happen once: made up for after the gap of spring, the first of the two in autumn.
        ("30 2 * * *", "2026-03-28T12:00", ["29 01:00", "30 00:30"]),
        ("30 2 * * *", "2026-10-24T12:00", ["25 00:30", "26 01:30"]),
        ("0 0,2 * * *", "2026-03-28T20:00", ["28 23:00", "29 01:00", "29 22:00"]),
        # Intervals follow the time that passes.
        ("*/30 * * * *", "2026-03-29T00:00", ["29 00:30", "29 01:00", "29 01:30"]),
        ("*/30 * * * *", "2026-10-25T00:00", ["25 00:30", "25 01:00", "25 01:30"]),
        ("0 */2 * * *", "2026-10-25T00:00", ["25 01:00", "25 03:00"]),
        # Days of the month and of the week, both restricted, match when either does.
        ("0 6 13 * 5", "2026-03-01T00:00", ["06 05:00", "13 05:00", "20 05:00", "27 05:00"]),
        ("0 6 1 jan *", "2026-03-01T00:00", ["01 05:00"]),
    ],
)
def test_due_times_in_berlin(expression, after, due):
    assert utc(cron.upcoming(expression, "Europe/Berlin", ms(after), len(due))) == due


@pytest.mark.parametrize("start", ["2026-03-28T23:00", "2026-10-24T23:00"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "15 3 * * *", "0 2,3 * * *", "*/20 * * * *", "10 * * * *"])
def test_a_due_time_is_the_same_whenever_it_is_asked_for(expression, start):
    """Wherever in the night one begins to ask, the due times to come are those of the whole sequence."""
    whole = cron.upcoming(expression, "Europe/Berlin", ms(start), 100)
    for minute in range(0, 360, 7):
        after = ms(start) + minute * 60_000
        assert cron.next_at_ms(expression, "Europe/Berlin", after) == next(at for at in whole if at > after)


def test_a_due_time_is_after_the_instant_and_a_minute_is_the_finest_grain():
    at = ms("2026-01-01T06:00")
    assert cron.next_at_ms("0 6 * * *", "UTC", at - 1) == at
    assert cron.next_at_ms("0 6 * * *", "UTC", at) == ms("2026-01-02T06:00")
    assert cron.next_at_ms("0 6 * * *", "UTC", at + 1) == ms("2026-01-02T06:00")


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("", "UTC"),
        ("* * * *", "UTC"),
        ("* * * * * *", "UTC"),
        ("60 * * * *", "UTC"),
        ("a * * * *", "UTC"),
        ("*/0 * * * *", "UTC"),
        ("@daily", "UTC"),
        ("0 0 30 2 *", "UTC"),
        ("0 0 * * *", "Mars/Olympus"),
        ("0 0 * * *", ""),
        ("0 0 * * *", "../etc/passwd"),
        ("0 0 * * *", "localtime"),
        ("0 0 * * *", "posixrules"),
        ("0 0 * * *", "Factory"),
        ("0 0 * * *", "posix/Europe/Berlin"),
        ("0 0 * * *", "right/Europe/Berlin"),
        ("0 0 * * *", "Europe"),
    ],
)
def test_what_cannot_be_read_or_never_comes_is_refused(expression, zone):
    with pytest.raises(Unreadable):
        cron.check(expression, zone)


def test_the_last_due_time_is_found_however_long_the_pause():
    first, now = ms("2020-01-01T00:00"), ms("2026-01-01T00:30")
    assert cron.last_between("* * * * *", "UTC", first, now) == now
    assert cron.last_between("0 0 1 1 *", "UTC", first, now) == ms("2026-01-01T00:00")
    assert cron.last_between("0 0 29 2 *", "UTC", first, now) == ms("2024-02-29T00:00")
    assert cron.last_between("0 0 1 6 *", "UTC", ms("2025-07-01T00:00"), now) is None
    assert cron.due_between("0 * * * *", "UTC", ms("2026-01-01T00:00"), ms("2026-01-01T02:00"), 9) == [
        ms(f"2026-01-01T0{hour}:00") for hour in range(3)
    ]
    assert len(cron.due_between("* * * * *", "UTC", first, now, 100)) == 100
