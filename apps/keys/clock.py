"""The present instant, and instants as the API writes them."""

from datetime import UTC, datetime, timedelta

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)


def utc_now() -> datetime:
    """Return the present instant."""
    return datetime.now(tz=UTC)


def now_ms() -> int:
    """Return the present instant in milliseconds since 1970."""
    return milliseconds(utc_now())


def milliseconds(instant: datetime) -> int:
    """Return the instant in milliseconds since 1970."""
    return (instant - _BEGIN) // _MILLISECOND


def microseconds(instant: datetime) -> int:
    """Return the instant in microseconds since 1970, which is as fine as the database keeps it."""
    return (instant - _BEGIN) // _MICROSECOND


def from_microseconds(number: int) -> datetime:
    """Return the instant that many microseconds after 1970; the last there is for any beyond it."""
    try:
        return _BEGIN + timedelta(microseconds=number)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def instant(at_ms: int) -> datetime:
    """Return the instant of so many milliseconds since 1970."""
    return _BEGIN + at_ms * _MILLISECOND
