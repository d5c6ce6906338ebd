"""Bodies over HTTP: media type, size, strictness, and their order against the key."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.test import RequestFactory

from apps.http.errors import ApiError
from apps.http.parsers import read_body
from tests.conftest import ApiClient
from tests.http.test_strict_json import EXACT, REFUSED

pytestmark = pytest.mark.usefixtures("probe")

LIMIT = 100_000  # of the probe's echo


@pytest.mark.parametrize("case", [case for case in REFUSED if len(REFUSED[case][0]) <= LIMIT])
def test_every_strictness_case_gets_its_code_over_http(case: str, api: Callable[..., ApiClient]) -> None:
    raw, code, _ = REFUSED[case]
    answer = api().post_json("/probe/echo", raw)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert answer.json()["request_id"] == answer["X-Request-ID"]


@pytest.mark.parametrize("case", EXACT)
def test_every_exact_case_comes_back_exactly_over_http(case: str, api: Callable[..., ApiClient]) -> None:
    raw, written = EXACT[case]
    answer = api().post_json("/probe/echo", raw)
    assert (answer.status_code, answer.content) == (200, b'{"value":' + written + b"}")


def test_a_body_of_the_limit_passes_and_one_byte_more_is_413(api: Callable[..., ApiClient]) -> None:
    at_limit = b'"' + b"a" * (LIMIT - 2) + b'"'
    assert api().post_json("/probe/echo", at_limit).status_code == 200
    answer = api().post_json("/probe/echo", at_limit + b" ")
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
    assert answer.json()["details"] == {"max_body_bytes": LIMIT}


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("application/x-www-form-urlencoded", None),
        ("multipart/form-data; boundary=x", None),
        ("text/plain", None),
        ("application/jsonp", None),
        ("", None),
        ("application/json; charset=latin-1", None),
        ("application/json", "gzip"),
        ("application/json", "identity"),
    ],
)
def test_another_media_type_or_any_encoding_is_415(
    content_type: str, encoding: str | None, api: Callable[..., ApiClient]
) -> None:
    headers = {"Content-Encoding": encoding} if encoding else {}
    answer = api().post_json("/probe/echo", b"{}", content_type=content_type, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", "application/json;"])
def test_json_is_json_however_it_is_written(content_type: str, api: Callable[..., ApiClient]) -> None:
    assert api().post_json("/probe/echo", b"{}", content_type=content_type).status_code == 200


def test_no_body_is_refused_unless_the_route_says_what_it_stands_for(api: Callable[..., ApiClient]) -> None:
    assert api().post_json("/probe/echo").json()["code"] == "JSON_INVALID"
    assert api().post_json("/probe/optional").json() == {"value": {}}
    assert api().post_json("/probe/optional", {"a": 1}).json() == {"value": {"a": 1}}


def test_nobody_without_the_key_and_scope_has_a_body_read(
    api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    assert api(None).post_json("/probe/echo", b"{").status_code == 401
    assert api(make_key(scopes=["state:read"])).post_json("/probe/echo", b"{").status_code == 403


class Watched(io.BytesIO):
    """A stream that counts what is taken from it."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(size)
        self.taken += len(piece)
        return piece


def request_of(stream: io.BytesIO, **environ: Any) -> Any:
    environ = {"wsgi.input": stream, "CONTENT_TYPE": "application/json", **environ}
    return RequestFactory().generic("POST", "/", **environ)


def test_a_body_announced_too_large_is_not_read_at_all() -> None:
    stream = Watched(b"x" * 50)
    with pytest.raises(ApiError) as caught:
        read_body(request_of(stream, CONTENT_LENGTH="50"), max_bytes=49)
    assert (caught.value.status, stream.taken) == (413, 0)


def test_a_body_in_chunks_is_read_to_one_byte_beyond_the_limit() -> None:
    chunked = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    assert read_body(request_of(Watched(b"x" * 50), **chunked), max_bytes=50) == b"x" * 50
    stream = Watched(b"x" * 10_000)
    with pytest.raises(ApiError) as caught:
        read_body(request_of(stream, **chunked), max_bytes=50)
    assert (caught.value.status, stream.taken) == (413, 51)


def test_a_body_that_breaks_off_is_refused() -> None:
    with pytest.raises(ApiError, match="broke off"):
        read_body(request_of(Watched(b"12345"), CONTENT_LENGTH="50"), max_bytes=100)
