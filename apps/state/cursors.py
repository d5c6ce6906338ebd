"""Cursors of pages and queries: opaque text, bound to the namespace and the shape of what is paged.

Nothing is kept on the server: a cursor holds a position and a digest of what it belongs to, so that one from
another namespace, collection or query is refused instead of silently skipping records.
Not here: the feed's cursors, which the engine names itself.
"""

import base64
import binascii
import hashlib
import re
from typing import Any

from apps.http.errors import ApiError
from apps.http.strict_json import dumps

_DIGEST_BYTES = 9
_MAX_CHARACTERS = 4096
_NUMBER = re.compile(r"[0-9]{1,18}")


def binding(*parts: Any) -> bytes:
    """Return the digest of what a cursor belongs to: namespace, route and everything that shapes the answer."""
    return hashlib.sha256(dumps(list(parts))).digest()[:_DIGEST_BYTES]


def encode(bound_to: bytes, position: str | None) -> str | None:
    """Return the cursor for `position`, None where there is nothing to go on from."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(bound_to + position.encode()).decode().rstrip("=")


def decode(bound_to: bytes, cursor: str | None) -> str | None:
    """Return the position in `cursor`. Raises INVALID_CURSOR where it is not one made by `encode` for `bound_to`."""
    if cursor is None:
        return None
    try:
        if len(cursor) > _MAX_CHARACTERS:
            raise ValueError("longer than any cursor")
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if raw[:_DIGEST_BYTES] != bound_to:
            raise ValueError("made for something else")
        position = raw[_DIGEST_BYTES:].decode()
        if "\0" in position:
            raise ValueError("NUL, which no database takes")
        return position
    except (ValueError, binascii.Error) as error:
        raise refused() from error


def decode_number(bound_to: bytes, cursor: str | None) -> int | None:
    """Return the position in `cursor` of a list by numbers. Its binding is no secret: it may hold anything."""
    position = decode(bound_to, cursor)
    if position is not None and not _NUMBER.fullmatch(position):
        raise refused()
    return None if position is None else int(position)


def refused() -> ApiError:
    """Return the refusal of a cursor that was not made here."""
    return ApiError(
        "INVALID_CURSOR",
        "This cursor was not made by this list or query; start again without one.",
        details={"field": "cursor"},
    )
