"""JSON read strictly and written exactly.

Strict means: malformed text, NaN, Infinity, numbers beyond what a double or 64 bits hold, lone surrogates, NUL,
duplicate member names, a byte order mark and nesting beyond the limit are refused, each with its position.
Exact means: what was accepted comes back with the same value and kind (1 stays 1, 1.0 stays 1.0).

The fast path is orjson, which is strict but for four things: it rounds integers beyond 64 bits, keeps the last of
duplicate members, accepts NUL, and nests to 1024. Each has a check that runs in C and is sound: when it is
satisfied the document is good, when it is not the document is walked token by token for the exact answer.
"""

import math
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import orjson
from django.utils.functional import Promise

from apps.http.errors import ApiError
from apps.http.limits import MAX_INTEGER, MAX_JSON_DEPTH, MIN_INTEGER

_DIGITS_TO_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_DIGITS = b"0" * 19  # 18 digits always fit 64 bits
_BRACKETS_TO_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[{]}")))
_NOT_STRUCTURE = bytes(sorted(set(range(256)) - set(b'[{]}"\\')))
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[\[\]{},:]')
_ESCAPED_NUL = rb"\u0000"


def loads(raw: bytes, *, max_depth: int = MAX_JSON_DEPTH) -> Any:
    """Return the value of `raw`. Raises ApiError JSON_INVALID (details: line, column, offset) or JSON_TOO_DEEP."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _malformed(raw, error, max_depth) from None
    if raw.count(b"[") + raw.count(b"{") > max_depth and _depth(raw) > max_depth:
        raise _too_deep(max_depth)
    written = orjson.dumps(value)
    # Equal bytes prove that nothing was rounded or dropped; most clients write compact JSON.
    if (written != raw and _may_hide_something(raw, written)) or _ESCAPED_NUL in written:
        _walk(raw)
    return value


def dumps(value: Any) -> bytes:
    """Return `value` as compact UTF-8 JSON. Raises TypeError for what JSON cannot say.

    NaN and the infinities become null: what was read by `loads` holds none.
    """
    return orjson.dumps(value, default=_plain)


def exact(value: Any) -> bytes:
    """Return `value` as compact UTF-8 JSON, for what a program made. Raises TypeError or ValueError for the rest."""
    raw = dumps(value)
    if b"null" in raw and _holds_no_number(value):
        raise ValueError("a number that is not finite")
    return raw


def _holds_no_number(value: Any) -> bool:
    """Tell whether NaN or an infinity is in it."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif isinstance(item, Mapping):
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            stack.extend(item)
    return False


def _plain(value: Any) -> Any:
    """Say in JSON what orjson does not know: mappings that are no dicts, sets as sorted lists, lazy texts."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Promise):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _may_hide_something(raw: bytes, written: bytes) -> bool:
    """Tell whether `raw` may hold a rounded integer or a dropped duplicate member; never wrong when it says no.

    Every dropped member drops its colon. Colons in strings are the same on both sides, written plainly or as
    \\u003a; an escaped backslash before "u003a" only raises the count of `raw`, so that the walk decides.
    """
    if _LONG_DIGITS in raw.translate(_DIGITS_TO_ZEROS):
        return True
    colons = raw.count(b":")
    if b"\\u" in raw:
        colons += raw.count(b"\\u003a") + raw.count(b"\\u003A")
    return colons != written.count(b":")


def _depth(raw: bytes) -> int:
    """Return how deep `raw`, JSON up to its end or to its first error, nests. Constant stack, linear time."""
    # Where every string's two quotes stand together once all else is deleted, no string holds a bracket.
    outside = raw.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in outside or b"\\" in outside:
        outside = b"".join(raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    steps = outside.translate(_BRACKETS_TO_STEPS, _NOT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _walk(raw: bytes) -> None:
    """Refuse the first integer beyond 64 bits, NUL or duplicate member name of `raw`, which is well-formed JSON."""
    names: list[set[bytes | str] | None] = []  # per open bracket: the member names so far, None for an array
    at_name = False
    for token in _TOKEN.finditer(raw):
        text = token.group()
        first = text[:1]
        if first == b'"':
            if _ESCAPED_NUL in text and "\0" in orjson.loads(text):
                raise _invalid(raw, token.start(), "a string holds NUL, which is not stored")
            if at_name:
                _note_name(raw, token.start(), text, names[-1])
                at_name = False
        elif first == b"{":
            names.append(set())
            at_name = True
        elif first == b"[":
            names.append(None)
        elif first in b"]}":
            names.pop()
            at_name = False
        elif first == b",":
            at_name = names[-1] is not None
        elif first != b":" and not _fits(text):
            raise _invalid(raw, token.start(), "an integer does not fit 64 bits; send it as a string")


def _note_name(raw: bytes, at: int, text: bytes, names: set[bytes | str] | None) -> None:
    name = orjson.loads(text)
    if names is None:
        raise AssertionError("a member name outside an object")
    if name in names:
        raise _invalid(raw, at, "a member name comes twice in one object")
    names.add(name)


def _fits(number: bytes) -> bool:
    if not number.lstrip(b"-").isdigit():
        return True  # a fraction or an exponent: a double, which orjson has checked
    return len(number) <= 20 and MIN_INTEGER <= int(number) <= MAX_INTEGER


def _malformed(raw: bytes, error: orjson.JSONDecodeError, max_depth: int) -> ApiError:
    """Return the refusal of what orjson could not read: whichever is first, too deep or malformed."""
    if "depth limit" in error.msg:
        return _too_deep(max_depth)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as broken:
        return _invalid(raw, broken.start, "the body is not UTF-8")
    if not text.strip(" \t\r\n"):
        return _invalid(raw, 0, "the body is empty")
    before = text[: error.pos].encode()
    if _depth(before) > max_depth:
        return _too_deep(max_depth)
    return _invalid(raw, len(before), _reason(text[error.pos :], error.msg))


def _reason(rest: str, message: str) -> str:
    for word in ("NaN", "Infinity", "-Infinity"):
        if rest.startswith(word):
            return f"{word} is not a JSON number"
    if "infinity" in message:
        return "a number is beyond what a double holds"
    if "surrogate" in message:
        return "a string holds half of a surrogate pair"
    return message.partition(": line ")[0]


def _invalid(raw: bytes, at: int, reason: str) -> ApiError:
    """Return JSON_INVALID at byte `at`; line and column count from 1, in characters; offset counts from 0."""
    before = raw[:at].decode("utf-8", errors="replace")
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return ApiError(
        "JSON_INVALID",
        f"The body is not valid JSON: {reason} (line {line}, column {column}).",
        details={"line": line, "column": column, "offset": len(before), "reason": reason},
    )


def _too_deep(max_depth: int) -> ApiError:
    return ApiError(
        "JSON_TOO_DEEP", f"The body nests deeper than {max_depth} levels.", details={"max_depth": max_depth}
    )
