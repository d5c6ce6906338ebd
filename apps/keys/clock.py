"""The present instant, and instants as the API writes them."""

from datetime import UTC, datetime, timedelta

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def utc_now() -> datetime:
    """Return the present instant."""
    return datetime.now(tz=UTC)


def milliseconds(instant: datetime) -> int:
    """Return the instant in milliseconds since 1970."""
    return (instant - _BEGIN) // _MILLISECOND
