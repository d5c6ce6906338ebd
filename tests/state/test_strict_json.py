"""Strict JSON on every route of this room that takes a body: each case its code, never a server error."""

import pytest

ROUTES = [
    ("POST", "/v1/collections/orders"),
    ("PUT", "/v1/collections/orders/o-1"),
    ("PATCH", "/v1/collections/orders/o-1"),
    ("POST", "/v1/collections/orders/o-1/cas"),
    ("POST", "/v1/query"),
    ("POST", "/v1/transactions"),
]

REFUSED = {
    "nothing": (b"", "JSON_INVALID"),
    "blanks": (b" \n\t", "JSON_INVALID"),
    "half an object": (b'{"a":1', "JSON_INVALID"),
    "a trailing comma": (b'{"a":1,}', "JSON_INVALID"),
    "two values": (b"{} {}", "JSON_INVALID"),
    "single quotes": (b"{'a':1}", "JSON_INVALID"),
    "a comment": (b"{} // no", "JSON_INVALID"),
    "NaN": (b'{"a":NaN}', "JSON_INVALID"),
    "Infinity": (b'{"a":Infinity}', "JSON_INVALID"),
    "minus Infinity": (b'{"a":-Infinity}', "JSON_INVALID"),
    "a double too large": (b'{"a":1e400}', "JSON_INVALID"),
    "an integer beyond 64 bits": (b'{"a":18446744073709551616}', "JSON_INVALID"),
    "an integer below 64 bits": (b'{"a":-9223372036854775809}', "JSON_INVALID"),
    "a leading zero": (b'{"a":01}', "JSON_INVALID"),
    "a leading plus": (b'{"a":+1}', "JSON_INVALID"),
    "a lone surrogate": (b'{"a":"\\ud800"}', "JSON_INVALID"),
    "a lone surrogate as a name": (b'{"\\udc00":1}', "JSON_INVALID"),
    "an escaped NUL": (b'{"a":"\\u0000"}', "JSON_INVALID"),
    "a raw NUL": (b'{"a":"\x00"}', "JSON_INVALID"),
    "a raw control character": (b'{"a":"\n"}', "JSON_INVALID"),
    "a member twice": (b'{"a":1,"a":2}', "JSON_INVALID"),
    "a member twice, once escaped": (b'{"a":1,"\\u0061":2}', "JSON_INVALID"),
    "a member twice, deep": (b'{"a":[{"b":1,"b":1}]}', "JSON_INVALID"),
    "bytes that are not UTF-8": (b'{"a":"\xff"}', "JSON_INVALID"),
    "an overlong encoding": (b'{"a":"\xc0\xaf"}', "JSON_INVALID"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "JSON_INVALID"),
    "a byte order mark": (b'\xef\xbb\xbf{"a":1}', "JSON_INVALID"),
    "too deep": (b'{"a":' * 65 + b"1" + b"}" * 65, "JSON_TOO_DEEP"),
    "far too deep": (b"[" * 500_000, "JSON_TOO_DEEP"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_json_that_cannot_be_kept_exactly_is_refused(client, method, path, case):
    body, code = REFUSED[case]
    answer = client.call(method, path, body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert client.get("/v1/revision").json()["revision"] == 0


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    ("extra", "status"),
    [
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_type": "application/json; charset=latin-1"}, 415),
        ({"content_type": ""}, 415),
        ({"headers": {"Content-Encoding": "gzip"}}, 415),
    ],
)
def test_a_body_that_does_not_say_it_is_plain_json_is_refused(client, method, path, extra, status):
    answer = client.call(method, path, {}, **extra)
    assert answer.status_code == status
    assert answer.json()["code"] == "UNSUPPORTED_MEDIA_TYPE"


@pytest.mark.parametrize(
    "value", [b"{" + b'"a":{' * 62 + b"}" * 63, b'{"a":18446744073709551615}', b'{"a":"\\ud83d\\ude00"}', b'{"a":1E2}']
)
def test_json_at_the_edges_is_taken(client, value):
    assert client.call("PUT", "/v1/collections/orders/o-1", value).status_code == 201


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_body_over_the_routes_limit_is_refused_unread(client, method, path):
    limit = 16 * 2**20 if path == "/v1/transactions" else 2 * 2**20
    answer = client.call(method, path, b"", CONTENT_LENGTH=str(limit + 1), CONTENT_TYPE="application/json")
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
