"""Every route that takes a body, whichever room it is of, reads it by the same rules. The URL map is walked: none is
forgotten. What the rules are: `test_strict_json.py`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.urls import resolve

from apps.http.limits import MAX_BODY_BYTES
from apps.keys.views import KeyedView
from tests.boundary_rows import PUBLIC, ROWS, Row
from tests.conftest import ApiClient
from tests.http.test_strict_json import DEFINED, EXACT, REFUSED
from tests.keys.test_boundary import doors, name_of

WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
MEDIA = [
    {"content_type": "text/plain"},
    {"content_type": "application/x-www-form-urlencoded"},
    {"content_type": "application/json; charset=latin-1"},
    {"content_type": "application/json; charset=utf-16"},
    {"content_type": "application/json; charset=utf-8; charset=utf-16"},
    {"content_type": "application/json, application/json"},
    {"content_type": ""},
    {"headers": {"Content-Encoding": "gzip"}},
    {"headers": {"Content-Encoding": "identity"}},
]


def view_of(row: Row) -> Any:
    return resolve(row.path).func.cls


def limit_of(row: Row) -> int:
    return int(getattr(view_of(row), "max_body_bytes", MAX_BODY_BYTES))


BODIES = [row for row in ROWS if row.method in WITH_BODY]
JSON_BODIES = [row for row in BODIES if row.media == "application/json"]
LINES = {row.path for row in BODIES if row.media == "application/x-ndjson"}
"""Routes whose body is lines of JSON: each line by the same rules (`tests/state/test_transfers.py` has the rest)."""


@pytest.fixture
def caller(data_dir: Path, api: Callable[..., ApiClient], make_key: Callable[..., Any]) -> Callable[[Row], ApiClient]:
    def client(row: Row) -> ApiClient:
        if row.scope == PUBLIC:
            return api(None)
        return api(make_key(scopes=[row.scope, *row.also] if row.scope else ["state:read"], worker_id=row.worker))

    return client


def test_every_route_that_takes_a_body_is_walked() -> None:
    assert {(row.method, resolve(row.path).route) for row in BODIES} == {
        each for each in doors() if each[0] in WITH_BODY
    }
    read_by_themselves = {row.path for row in BODIES if not getattr(view_of(row), "reads_json", True)}
    assert read_by_themselves == LINES == {"/v1/import"}, "a view that reads its body itself needs a proof of its own"
    assert len(JSON_BODIES) > 30


@pytest.mark.parametrize("row", JSON_BODIES, ids=name_of)
def test_what_is_not_strict_json_is_refused_by_every_route(row: Row, caller: Callable[[Row], ApiClient]) -> None:
    client = caller(row)
    may_be_empty = issubclass(view_of(row), KeyedView) and view_of(row).empty_body is not None
    for name, (raw, code, _) in REFUSED.items():
        if not raw and may_be_empty:
            continue
        answer = client.call(row.method, row.path, raw)
        expected = (400, code) if len(raw) <= limit_of(row) else (413, "BODY_TOO_LARGE")
        assert (answer.status_code, answer.json()["code"]) == expected, name


@pytest.mark.parametrize("row", JSON_BODIES, ids=name_of)
def test_json_that_is_taken_is_never_the_reason_to_fail(row: Row, caller: Callable[[Row], ApiClient]) -> None:
    client = caller(row)
    for name, (raw, _) in {**EXACT, **DEFINED}.items():
        for body in (raw, b'{"value":%s}' % raw if name not in ("64 arrays", "64 objects") else raw):
            answer = client.call(row.method, row.path, body)
            assert answer.status_code < 500, (name, answer.content)
            code = answer.json().get("code") if answer.content else None
            assert code not in ("JSON_INVALID", "JSON_TOO_DEEP"), name


@pytest.mark.parametrize("row", JSON_BODIES, ids=name_of)
def test_a_body_over_the_limit_or_of_another_kind_is_refused_unread(
    row: Row, caller: Callable[[Row], ApiClient]
) -> None:
    client = caller(row)
    length = str(limit_of(row) + 1)
    over = client.call(row.method, row.path, b"", CONTENT_LENGTH=length, CONTENT_TYPE="application/json")
    assert (over.status_code, over.json()["code"]) == (413, "BODY_TOO_LARGE")
    for extra in MEDIA:
        answer = client.call(row.method, row.path, {}, **extra)
        assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE"), extra


def test_a_line_of_an_import_is_read_by_the_same_rules(data_dir: Path, api: Callable[..., ApiClient]) -> None:
    client = api()
    for name, (raw, code, _) in REFUSED.items():
        if not raw.strip() or b"\n" in raw.strip():
            continue
        answer = client.call("POST", "/v1/import", raw, content_type="application/x-ndjson")
        assert (answer.status_code, answer.json()["code"], answer.json()["row"]) == (400, code, 1), name
