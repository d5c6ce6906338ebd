"""The order of JSON values, and the bytes that keep it in an index.

Missing, null, false, true, numbers (both kinds, by exact mathematical value), strings (by code point), then lists and
objects (by their JSON). Components of an index key:

    01 missing   02 null   03 false   04 true
    05  u64 u16             number: the largest double not above it, made to sort, and what is left above that
    06  UTF-8 ... 00        string, its first bytes; NUL cannot occur in it
    07  JSON ... 00         list or object, its first bytes

What is cut sorts with whatever it shares those bytes with: `lossy` says so, and readers sort such entries again.
"""

import math
import struct
from typing import Any, Final

import orjson

MISSING: Final = object()

NUMBER: Final = b"\x05"
STRING: Final = b"\x06"
AFTER: Final = b"\xff"  # beyond everything a component can go on with
_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1
_EXACT: Final = 1 << 53
_DOUBLE: Final = struct.Struct(">d")
_NUMBER: Final = struct.Struct(">cQH")


def rank(value: Any) -> tuple[int, Any]:
    """A key that sorts values in this order; equal for 1 and 1.0."""
    if value is MISSING:
        return (0, 0)
    if value is None:
        return (1, 0)
    if type(value) is bool:
        return (2, value)
    if type(value) in (int, float):
        return (3, value)
    if type(value) is str:
        return (4, value)
    return (5, orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def component(value: Any, text_bytes: int) -> tuple[bytes, bool]:
    """The bytes of a value, and whether they are lossy; `text_bytes` of a string are kept."""
    kind = type(value)
    if kind is str:
        return _text(STRING, value.encode(), text_bytes)
    if kind is int or kind is float:
        return _number(value), False
    if value is MISSING:
        return b"\x01", False
    if value is None:
        return b"\x02", False
    if kind is bool:
        return (b"\x04" if value else b"\x03"), False
    return _text(b"\x07", orjson.dumps(value, option=orjson.OPT_SORT_KEYS), text_bytes)


def group_end(key: bytes, at: int, components: int, text_bytes: int) -> tuple[int, bool]:
    """Where `components` of an index key end that begin at `at`, or the first lossy one of them; and whether it is."""
    for _ in range(components):
        tag = key[at]
        if tag < 5:
            at += 1
        elif tag == 5:
            at += _NUMBER.size
        else:
            end = key.index(b"\0", at) + 1
            if end - at - 2 == text_bytes:
                return end, True
            at = end
    return at, False


def _text(tag: bytes, data: bytes, text_bytes: int) -> tuple[bytes, bool]:
    if len(data) < text_bytes:
        return tag + data + b"\0", False
    return tag + data[:text_bytes] + b"\0", True


def _number(value: int | float) -> bytes:
    below = float(value) or 0.0  # -0.0 is 0.0
    rest = 0
    if type(value) is int and not -_EXACT <= value <= _EXACT:
        if int(below) > value:
            below = math.nextafter(below, -math.inf)
        rest = value - int(below)
    (bits,) = struct.unpack(">Q", _DOUBLE.pack(below))
    return _NUMBER.pack(NUMBER, bits ^ (_ALL if bits & _SIGN else _SIGN), rest)
