"""OPTIONS, HEAD and wrong methods, on every route of every room. The URL map is walked: none is forgotten."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from apps.http.methods import StatedMethods
from tests.boundary_rows import ROWS
from tests.conftest import ApiClient
from tests.keys.test_boundary import METHODS

NAMED = {row.path for row in ROWS}
ALIASES = ("/collections/orders", "/transactions", "/query", "/events", "/revision", "/runtime", "/health", "/metrics")
PATHS = sorted(NAMED | set(ALIASES) | {"/health/ready", "/ready"})


@pytest.fixture
def client(data_dir: Path, api: Callable[..., ApiClient]) -> ApiClient:
    return api()


@pytest.mark.parametrize("path", PATHS)
def test_options_names_the_methods_and_every_other_is_405_with_the_same(path: str, client: ApiClient) -> None:
    told = client.options(path)
    assert (told.status_code, told.content) == (204, b""), told.content
    allowed = set(told["Allow"].split(", "))
    assert "OPTIONS" in allowed and ("GET" in allowed) == ("HEAD" in allowed)
    for method in {*METHODS, "HEAD", "TRACE", "BREW"} - allowed:
        answer = client.generic(method, path)
        assert answer.status_code == 405, method
        assert set(answer["Allow"].split(", ")) == allowed, method
        assert method == "HEAD" or answer.json()["code"] == "METHOD_NOT_ALLOWED"


@pytest.mark.parametrize("path", sorted({row.path for row in ROWS if row.method == "GET"} | {"/metrics", "/ready"}))
def test_head_answers_what_get_answers_without_the_body(path: str, client: ApiClient) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert {name for name in got.headers if name != "Content-Length"} <= set(head.headers)
    assert head["Content-Type"] == got["Content-Type"]


def patterns(under: list[Any], prefix: str = "/") -> Iterator[tuple[str, URLPattern]]:
    for each in under:
        route = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from patterns(each.url_patterns, route)
        else:
            yield route, each


def test_every_route_of_the_api_is_one_that_states_its_methods() -> None:
    found = [(route, each) for route, each in patterns(get_resolver().url_patterns) if not route.startswith("/admin/")]
    assert len(found) > 100
    other = [route for route, each in found if not issubclass(getattr(each.callback, "cls", object), StatedMethods)]
    assert other == []
