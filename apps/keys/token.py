"""The text form of a key's secret. Not here: what is kept of it (`peppers.py`, `models.KeySecret`).

    fdb_<env>_<id>_<secret><check>
        env      1 to 16 of [a-z0-9]; a fixed prefix for secret scanners; "session" for people's sessions
        id       12 base62 characters, public
        secret   43 base62 characters: 32 random bytes
        check    6 base62 characters: CRC-32 of everything before it

A mistyped token fails its checksum and is refused without a query; that tells nothing, since anybody can compute it.
Keys imported from the reference keep their tokens: `fdb_live_` and 48 base62 characters.
"""

import re
import secrets
import zlib
from dataclasses import dataclass

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_CHARS = 12
_SECRET_CHARS = 43  # 62**43 > 2**256
_CHECK_CHARS = 6  # 62**6 > 2**32
_TOKEN = re.compile(
    rf"fdb_([a-z0-9]{{1,16}})_([0-9A-Za-z]{{{_ID_CHARS}}})_"
    rf"([0-9A-Za-z]{{{_SECRET_CHARS}}})([0-9A-Za-z]{{{_CHECK_CHARS}}})"
)

_IMPORTED = re.compile(r"fdb_live_[0-9A-Za-z]{48}")


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A well-formed token. Its text is a secret: it is never logged, and `repr` does not show it."""

    key_id: str
    text: str
    environment: str

    def __repr__(self) -> str:
        return f"Token(key_id={self.key_id!r})"


def new_key_id() -> str:
    """Return a fresh public id."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_CHARS))


def new_token(key_id: str, environment: str) -> Token:
    """Return a fresh token for the key, from 32 random bytes."""
    secret = _base62(int.from_bytes(secrets.token_bytes(32), "big"), _SECRET_CHARS)
    body = f"fdb_{environment}_{key_id}_{secret}"
    return Token(key_id=key_id, text=body + _check(body), environment=environment)


def parse(text: str) -> Token | None:
    """Return the token that `text` is, or None where its form or checksum is wrong."""
    match = _TOKEN.fullmatch(text)
    if match is None or _check(text[:-_CHECK_CHARS]) != match.group(4):
        return None
    return Token(key_id=match.group(2), text=text, environment=match.group(1))


def is_imported_form(text: str) -> bool:
    """Tell whether the text has the form of the reference's tokens, which name no key and carry no checksum."""
    return _IMPORTED.fullmatch(text) is not None


def _check(body: str) -> str:
    return _base62(zlib.crc32(body.encode("ascii")), _CHECK_CHARS)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, rest = divmod(number, 62)
        digits.append(_ALPHABET[rest])
    return "".join(reversed(digits))
