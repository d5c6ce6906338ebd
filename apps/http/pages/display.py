"""How values look on a console page: instants, durations, counts, hostile text, JSON. Pure; the caller passes the time.

Every function returns plain text; templates escape it. Nothing here marks anything as safe.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any

import orjson

from apps.http.pages.limits import COUNT_CAP, JSON_CHARS

# Control characters, and the marks by which text hides or changes the direction or the order in which it is shown.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def seen(text: str) -> str:
    """Return the text with every character that hides, or moves others, written as its JSON escape."""
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f", text)


def words(name: str) -> str:
    """Return a name in capitals as words: `DEAD_LETTER` as `dead letter`."""
    return str(name).replace("_", " ").lower()


def instant(ms: int | None) -> str:
    """Return an instant to the second, in UTC; one that no calendar reaches as it is stored."""
    at = None if ms is None else _utc(ms)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "" if ms is None else f"{ms} ms after 1970"


def clock(ms: int) -> str:
    """Return the time of day of an instant, to the millisecond, in UTC."""
    at = _utc(ms)
    return f"{at:%H:%M:%S}.{ms % 1000:03d}" if at else instant(ms)


def iso_instant(ms: int) -> str:
    """Return an instant to the millisecond, in ISO 8601; nothing for one that no calendar reaches."""
    at = _utc(ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z" if at else ""


def _utc(ms: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(ms // 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None


def duration(ms: int | None) -> str:
    """Return a span of time in its one or two largest units: `850 ms`, `12 s`, `3 min 20 s`, `4 d 2 h`."""
    if ms is None:
        return ""
    if abs(ms) < 1_000:
        return f"{ms} ms"
    sign, rest = ("-", -ms) if ms < 0 else ("", ms)
    parts = []
    for size, name in _UNITS:
        if rest >= size:
            parts.append(f"{rest // size} {name}")
            rest %= size
        elif parts:
            break
        if len(parts) == 2:
            break
    return sign + " ".join(parts)


def since(ms: int | None, now_ms: int) -> str:
    """Return how long ago an instant was, or how far ahead it lies."""
    if ms is None:
        return ""
    gap = now_ms - ms
    if -1_000 < gap < 1_000:
        return "just now"
    return f"{duration(gap)} ago" if gap > 0 else f"in {duration(-gap)}"


def capped(count: int, cap: int = COUNT_CAP) -> str:
    """Return a count that was taken up to `cap + 1` rows: exact up to the cap, `1,000+` beyond."""
    return f"{count:,}" if count <= cap else f"{cap:,}+"


def in_bytes(count: int) -> str:
    """Return a number of bytes in the unit that fits: `812 bytes`, `1.5 MiB`."""
    if count < 1024:
        return f"{count} bytes"
    power = min(4, (count.bit_length() - 1) // 10)
    return f"{count / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


def json_preview(value: Any, chars: int) -> str:
    """Return the beginning of the value as JSON in one line; as much of a large one is made readable as is shown."""
    raw = orjson.dumps(value)
    text = seen(raw[: chars * 4].decode(errors="ignore"))
    return text if len(raw) <= chars * 4 and len(text) <= chars else text[: chars - 1] + "\u2026"


def json_text(value: Any, *, max_chars: int = JSON_CHARS) -> tuple[str, bool]:
    """Return the value as indented JSON with numbers as stored, and whether it had to be cut."""
    text = seen(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
    return (text, False) if len(text) <= max_chars else (text[:max_chars], True)
