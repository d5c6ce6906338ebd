"""Pages in keyset order: opaque cursors, and the limit. A cursor is good for the query that gave it, and no other.

cursor   base64url of  {number}.{first 12 hex digits of SHA-256 over the query's shape}
"""

import base64
import binascii
import re

from drf_spectacular.utils import OpenApiParameter

from apps.http import canonical_json
from apps.http.errors import ApiError
from apps.http.openapi import Answer, Schema, query_parameter

_FORM = re.compile(r"([1-9][0-9]{0,18})\.([0-9a-f]{12})")


def encode(number: int | None, *shape: str | int | None) -> str | None:
    """Return the cursor that continues below `number` in the query of that shape; None for no more."""
    if number is None:
        return None
    return base64.urlsafe_b64encode(f"{number}.{_fingerprint(shape)}".encode()).decode().rstrip("=")


def decode(text: str | None, *shape: str | int | None) -> int | None:
    """Return the number in a cursor of this query; None for none. Raises ApiError INVALID_CURSOR."""
    if not text:
        return None
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error):
        raw = ""
    match = _FORM.fullmatch(raw)
    if match is None or match.group(2) != _fingerprint(shape):
        raise ApiError("INVALID_CURSOR", "The cursor is not one of this list.")
    return int(match.group(1))


def read_limit(text: str | None, *, default: int, maximum: int) -> int:
    """Return the page's size. Raises ApiError VALIDATION_ERROR."""
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= maximum):
        raise ApiError("VALIDATION_ERROR", f"limit: send 1 to {maximum}.", details={"field": "limit"})
    return int(text)


def parameters(*, default: int, maximum: int) -> list[OpenApiParameter]:
    """Describe the parameters of every such list."""
    return [
        query_parameter("limit", f"1 to {maximum}; {default} when left out.", {"type": "integer"}),
        query_parameter("cursor", "The `next_cursor` of the page before."),
    ]


def answer(description: str, member: str, item: Schema) -> Answer:
    """Describe a page: its items under `member`, and where to go on."""
    return Answer(
        description,
        {
            "type": "object",
            "properties": {
                member: {"type": "array", "items": item},
                "next_cursor": {"type": ["string", "null"]},
            },
        },
    )


def _fingerprint(shape: tuple[str | int | None, ...]) -> str:
    return canonical_json.sha256_hex(list(shape))[:12]
