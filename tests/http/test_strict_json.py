"""Strict reading and exact writing, each case alone, then against a slow reference of the same rules."""

import json
import math
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.http import strict_json
from apps.http.errors import ApiError
from apps.http.limits import MAX_INTEGER, MAX_JSON_DEPTH, MIN_INTEGER

DEEPEST = b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH
ONE_DEEPER = b"[" * (MAX_JSON_DEPTH + 1) + b"]" * (MAX_JSON_DEPTH + 1)
DEEP_OBJECTS = b'{"a":' * MAX_JSON_DEPTH + b"1" + b"}" * MAX_JSON_DEPTH
ONE_DEEPER_OBJECTS = b'{"a":' + DEEP_OBJECTS + b"}"
BRACKETS_IN_STRINGS = b'["' + b"[{" * 500 + b'", "' + b'\\"[\\\\' * 100 + b'"]'

REFUSED: dict[str, tuple[bytes, str, int | None]] = {
    # name: body, code, offset of the mistake in characters
    "empty": (b"", "JSON_INVALID", 0),
    "only blanks": (b" \n\t ", "JSON_INVALID", 0),
    "cut off": (b'{"a": ', "JSON_INVALID", None),
    "cut in a string": (b'{"a": "b', "JSON_INVALID", None),
    "trailing comma": (b"[1,]", "JSON_INVALID", 2),
    "trailing garbage": (b'{"a":1} x', "JSON_INVALID", 8),
    "two documents": (b"{}{}", "JSON_INVALID", 2),
    "single quotes": (b"{'a':1}", "JSON_INVALID", 1),
    "comment": (b"[1/*one*/]", "JSON_INVALID", 2),
    "leading zero": (b"[01]", "JSON_INVALID", None),
    "leading plus": (b"[+1]", "JSON_INVALID", 1),
    "bare dot": (b"[.5]", "JSON_INVALID", 1),
    "hexadecimal": (b"[0x10]", "JSON_INVALID", None),
    "raw control character": (b'["a\x01b"]', "JSON_INVALID", None),
    "raw NUL": (b'["a\x00b"]', "JSON_INVALID", None),
    "byte order mark": (b"\xef\xbb\xbf{}", "JSON_INVALID", 0),
    "utf-16": ("{}".encode("utf-16-le"), "JSON_INVALID", None),
    "invalid utf-8": (b'["ok", "\xff"]', "JSON_INVALID", 8),
    "overlong utf-8": (b'["\xc0\xaf"]', "JSON_INVALID", 2),
    "NaN": (b'{"a": NaN}', "JSON_INVALID", 6),
    "Infinity": (b"[Infinity]", "JSON_INVALID", 1),
    "-Infinity": (b"[-Infinity]", "JSON_INVALID", None),
    "1e400": (b'{"a": 1e400}', "JSON_INVALID", 6),
    "-1e400": (b"[-1e400]", "JSON_INVALID", 1),
    "2^64": (b'{"a": 18446744073709551616}', "JSON_INVALID", 6),
    "below -2^63": (b"[1, -9223372036854775809]", "JSON_INVALID", 4),
    "sixty digits": (b"[" + b"1" * 60 + b"]", "JSON_INVALID", 1),
    "five thousand digits": (b"[" + b"1" * 5000 + b"]", "JSON_INVALID", None),
    "lone high surrogate": (b'["\\ud800"]', "JSON_INVALID", None),
    "lone low surrogate": (b'["\\udc00"]', "JSON_INVALID", None),
    "surrogates the wrong way round": (b'["\\udc00\\ud800"]', "JSON_INVALID", None),
    "high surrogate and text": (b'["\\ud800x"]', "JSON_INVALID", None),
    "lone surrogate in a name": (b'{"\\ud800": 1}', "JSON_INVALID", None),
    "raw surrogate": (b'["\xed\xa0\x80"]', "JSON_INVALID", 2),
    "escaped NUL": (b'{"a": "b\\u0000c"}', "JSON_INVALID", 6),
    "escaped NUL in a name": (b'{"a\\u0000": 1}', "JSON_INVALID", 1),
    "NUL after an escaped backslash": (b'["\\\\u0000", "\\\\\\u0000"]', "JSON_INVALID", 12),
    "duplicate name": (b'{"a":1,"a":2}', "JSON_INVALID", 7),
    "duplicate name with the same value": (b'{"a":1,"a":1}', "JSON_INVALID", 7),
    "duplicate name, nested": (b'[{"x":{"a":1,"b":2,"a":3}}]', "JSON_INVALID", 19),
    "duplicate name, once escaped": (b'{"a":1,"\\u0061":2}', "JSON_INVALID", 7),
    "duplicate name and colons in strings": (b'{"a":":","a":"\\u003a"}', "JSON_INVALID", 9),
    "duplicate name hidden by an escaped colon": (b'{"a":1,"a":2,"b":"\\u003a"}', "JSON_INVALID", 7),
    "duplicate empty name": (b'{"":1,"":2}', "JSON_INVALID", 6),
    "duplicate after multi-byte text": ('{"ü":"日本","ü":2}'.encode(), "JSON_INVALID", 10),
    "65 arrays": (ONE_DEEPER, "JSON_TOO_DEEP", None),
    "65 objects": (ONE_DEEPER_OBJECTS, "JSON_TOO_DEEP", None),
    "100,000 arrays": (b"[" * 100_000 + b"]" * 100_000, "JSON_TOO_DEEP", None),
    "100,000 open brackets": (b"[" * 100_000, "JSON_TOO_DEEP", None),
    "65 open brackets": (b"[" * 65, "JSON_TOO_DEEP", None),
    "100,000 open objects": (b'{"a":' * 100_000, "JSON_TOO_DEEP", None),
    "too deep beside brackets in strings": (b'["]]]]", ' + ONE_DEEPER[1:], "JSON_TOO_DEEP", None),
    "64 open brackets": (b"[" * 64, "JSON_INVALID", None),
    "form feed": (b"\x0c[1]", "JSON_INVALID", 0),
    "NUL after the end": (b"[1]\x00", "JSON_INVALID", 3),
    "utf-16 with its mark": ("[1]".encode("utf-16"), "JSON_INVALID", None),
    "utf-32": ("[1]".encode("utf-32-le"), "JSON_INVALID", None),
    "latin-1": ('["ü"]'.encode("latin-1"), "JSON_INVALID", 2),
    "beyond Unicode": (b'["\xf4\x90\x80\x80"]', "JSON_INVALID", 2),
    "half a character": (b'["\xe6\x97"]', "JSON_INVALID", 2),
    "a name without quotes": (b"{a: 1}", "JSON_INVALID", 1),
    "a name that is a number": (b"{1: 1}", "JSON_INVALID", 1),
    "a value without a name": (b"{1}", "JSON_INVALID", 1),
    "two colons": (b'{"a"::1}', "JSON_INVALID", 5),
    "a comma alone": (b"[,]", "JSON_INVALID", 1),
    "two commas": (b"[1,,2]", "JSON_INVALID", 3),
    "unbalanced": (b"[1}", "JSON_INVALID", 2),
    "one bracket too many": (b"[1]]", "JSON_INVALID", 3),
    "True": (b"[True]", "JSON_INVALID", 1),
    "nul": (b"[nul]", "JSON_INVALID", None),
    "a lone minus": (b"[-]", "JSON_INVALID", None),
    "minus and blank": (b"[- 1]", "JSON_INVALID", None),
    "a dot without digits": (b"[1.]", "JSON_INVALID", None),
    "an exponent without digits": (b"[1e]", "JSON_INVALID", None),
    "an exponent with a sign alone": (b"[1e+]", "JSON_INVALID", None),
    "an underscore in a number": (b"[1_000]", "JSON_INVALID", None),
    "full-width digits": ("[\uff11]".encode(), "JSON_INVALID", 1),
    "an unknown escape": (b'["\\x41"]', "JSON_INVALID", None),
    "a short escape": (b'["\\u12"]', "JSON_INVALID", None),
    "a raw line end in a string": (b'["a\nb"]', "JSON_INVALID", None),
    "a raw tab in a string": (b'["a\tb"]', "JSON_INVALID", None),
    "a no-break space between": ("[1,\u00a02]".encode(), "JSON_INVALID", 3),
}

EXACT: dict[str, tuple[bytes, bytes]] = {
    # name: body, what comes back
    "one": (b"1", b"1"),
    "one as a double": (b"1.0", b"1.0"),
    "largest": (b"18446744073709551615", b"18446744073709551615"),
    "smallest": (b"-9223372036854775808", b"-9223372036854775808"),
    "beyond 2^53": (b"[9007199254740993]", b"[9007199254740993]"),
    "1e16": (b"1e16", b"1e+16"),
    "1E+2": (b"1E+2", b"100.0"),
    "minus zero as a double": (b"-0.0", b"-0.0"),
    "a tenth": (b"0.1", b"0.1"),
    "smallest double": (b"5e-324", b"5e-324"),
    "largest double": (b"1.7976931348623157e308", b"1.7976931348623157e+308"),
    "nineteen digits in a string": (b'"1234567890123456789012"', b'"1234567890123456789012"'),
    "null": (b" null ", b"null"),
    "64 arrays": (DEEPEST, DEEPEST),
    "64 objects": (DEEP_OBJECTS, DEEP_OBJECTS),
    "surrogate pair": (b'"\\ud83d\\ude00"', '"\U0001f600"'.encode()),
    "escapes": (b'"\\u00fc\\n\\/\\u007f"', '"ü\\n/\x7f"'.encode()),
    "text that looks like an escaped NUL": (b'"\\\\u0000"', b'"\\\\u0000"'),
    "same name in different objects": (b'[{"a":1},{"a":{"a":2}}]', b'[{"a":1},{"a":{"a":2}}]'),
    "names that differ by case": (b'{"a":1,"A":2}', b'{"a":1,"A":2}'),
    "order of names": (b'{"b":1,"a":2}', b'{"b":1,"a":2}'),
    "blanks": (b'\r\n{ "a" :\t[ 1 , 2 ] }\n', b'{"a":[1,2]}'),
}

DEFINED: dict[str, tuple[bytes, bytes]] = {
    # Where RFC 8259 leaves it to the reader: what is taken, and how it comes back.
    "minus zero as an integer": (b"-0", b"0"),
    "a fraction finer than a double": (b"0.12345678901234567890123", b"0.12345678901234568"),
    "an integer part longer than a double, with a fraction": (b"123456789012345678901.5", b"1.2345678901234568e+20"),
    "a number too small for a double": (b"1e-400", b"0.0"),
    "half the smallest double": (b"1e-324", b"0.0"),
    "the smallest double, written longer": (b"4.9e-324", b"5e-324"),
    "a code point that is no character": (b'"\\uFFFE"', "\ufffe".join('""').encode()),
    "the last code point": (b'"\\uDBFF\\uDFFF"', "\U0010ffff".join('""').encode()),
    "a line separator": (b'"\\u2028"', "\u2028".join('""').encode()),
    "delete, unescaped": (b'"\x7f"', b'"\x7f"'),
    "an empty name": (b'{"":1}', b'{"":1}'),
    "a scalar alone": (b" true\n", b"true"),
}


def refusal(raw: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        strict_json.loads(raw)
    return caught.value


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_strict_json_is_refused_with_its_code_and_place(case: str) -> None:
    raw, code, offset = REFUSED[case]
    error = refusal(raw)
    assert (error.code, error.status) == (code, 400)
    if code == "JSON_INVALID":
        assert {"line", "column", "offset", "reason"} == set(error.details)
        assert offset is None or error.details["offset"] == offset, error.details


@pytest.mark.parametrize("case", DEFINED)
def test_what_is_left_to_the_reader_is_decided_so(case: str) -> None:
    raw, written = DEFINED[case]
    assert strict_json.dumps(strict_json.loads(raw)) == written


@pytest.mark.parametrize("case", EXACT)
def test_what_is_accepted_comes_back_exactly(case: str) -> None:
    raw, written = EXACT[case]
    assert strict_json.dumps(strict_json.loads(raw)) == written


def test_brackets_in_strings_are_no_depth() -> None:
    assert len(strict_json.loads(BRACKETS_IN_STRINGS)) == 2


def test_line_and_column_count_from_one_and_in_characters() -> None:
    error = refusal('{"ü":\n  "日", x}'.encode())
    assert (error.details["line"], error.details["column"]) == (2, 8)


def test_the_depth_limit_can_be_narrower() -> None:
    assert strict_json.loads(b"[[1]]", max_depth=2) == [[1]]
    with pytest.raises(ApiError, match="deeper than 2"):
        strict_json.loads(b"[[[1]]]", max_depth=2)


def test_integers_at_the_limits_pass_and_one_beyond_does_not() -> None:
    for number in (MIN_INTEGER, MAX_INTEGER):
        assert strict_json.loads(b'{"a": %d}' % number) == {"a": number}
    for number in (MIN_INTEGER - 1, MAX_INTEGER + 1):
        assert "64 bits" in refusal(b'{"a": %d}' % number).message


def test_a_large_hostile_document_costs_no_more_than_linear_time() -> None:
    names = b",".join(b'"%d": 12345678901234567890' % number for number in range(40_000))
    started = time.monotonic()
    strict_json.loads(b"{" + names + b"}")
    refusal(b"{" + names + b',"1":1}')
    refusal(b'["' + b"\\\\" * 500_000 + b"[" * 500_000)
    assert time.monotonic() - started < 20


def test_written_json_is_compact_utf8_and_refuses_what_json_cannot_say() -> None:
    assert strict_json.dumps({"ü": [1, 2.5, None, True], "s": frozenset({"b", "a"})}) == (
        '{"ü":[1,2.5,null,true],"s":["a","b"]}'.encode()
    )
    with pytest.raises(TypeError):
        strict_json.dumps({"a": object()})


# -- against a slow reference ---------------------------------------------------------------------------------------


class Broken(Exception):
    """The reference refuses."""


def reference(raw: bytes) -> Any:
    """Read the same rules with the standard library, slowly."""

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in members}) != len(members):
            raise Broken
        return dict(members)

    def integer(digits: str) -> int:
        if len(digits) > 20 or not MIN_INTEGER <= int(digits) <= MAX_INTEGER:
            raise Broken
        return int(digits)

    def double(digits: str) -> float:
        if math.isinf(float(digits)):
            raise Broken
        return float(digits)

    def constant(name: str) -> None:
        raise Broken

    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=pairs, parse_int=integer, parse_float=double, parse_constant=constant, strict=True
        )
        check(value, 0)
    except (ValueError, Broken) as error:
        raise Broken from error
    return value


def check(value: Any, depth: int) -> None:
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= char <= "\udfff" for char in value)):
        raise Broken
    if isinstance(value, dict | list):
        if depth + 1 > MAX_JSON_DEPTH:
            raise Broken
        for name in value if isinstance(value, dict) else ():
            check(name, depth)
        for member in value.values() if isinstance(value, dict) else value:
            check(member, depth + 1)


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


def agree(raw: bytes) -> None:
    try:
        expected = reference(raw)
    except Broken:
        assert refusal(raw).code in ("JSON_INVALID", "JSON_TOO_DEEP")
    else:
        assert same(strict_json.loads(raw), expected)


STRINGS = r'"a" "a" "\u0061" ":" "\u003a" "\\u003a" "\u0000" "\\" "[{" "\ud800" "ü"'.split()
NUMBERS = "1 -0 0.5 1e400 1e16 18446744073709551615 18446744073709551616 -9223372036854775809 NaN".split()
PIECES = st.sampled_from([*STRINGS, *NUMBERS, *"{}[]::,, ", "null", "true"])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_any_sequence_of_tokens_is_judged_as_the_reference_judges_it(text: str) -> None:
    agree(text.encode())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(VALUES, st.booleans(), st.booleans())
def test_any_document_is_judged_as_the_reference_judges_it(value: Any, ascii_only: bool, compact: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":") if compact else None)
    agree(text.encode("utf-8", "surrogatepass"))


def test_documents_damaged_at_random_are_judged_as_the_reference_judges_them() -> None:
    seed = random.randrange(2**32)
    choice = random.Random(seed)
    whole = b'{"a": [1, -2.5e3, "x\\u003a\\\\", {"b": null, "c": "12345678901234567890"}], "d": 18446744073709551615}'
    for _ in range(3000):
        raw = bytearray(whole)
        for _ in range(choice.randint(1, 3)):
            place = choice.randrange(len(raw))
            raw[place : place + choice.randint(0, 2)] = bytes(choice.choices(b'{}[]",:\\u0019ea \xc3\x00', k=1))
        try:
            agree(bytes(raw))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {bytes(raw)!r}") from error
