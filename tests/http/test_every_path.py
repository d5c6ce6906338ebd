"""Ids in paths are one percent-encoded segment, on every route of every room that has one."""

import re
from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

SEGMENT = re.compile(r"<str:(\w+)>")
NAMED_ELSE = {"record": "id", "transaction": "id"}
"""How refusals name the segments whose fields are called otherwise."""


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "/") -> Iterator[tuple[str, set[str]]]:
    """Give every route of the API with a segment in it, as it is written, and the methods it has."""
    for each in patterns:
        route = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            if not route.startswith("/admin/"):
                yield from routes(each.url_patterns, route)
        elif SEGMENT.search(route):
            view = each.callback.cls  # type: ignore[attr-defined]
            yield route, {name for name in ("get", "put", "post", "delete") if hasattr(view, name)}


EVERY = [
    (method.upper(), route)
    for route, methods in routes(get_resolver("feltsite.urls").url_patterns)
    for method in sorted(methods)
]


def filled(route: str, name: str, segment: str) -> str:
    """Return the route's path with `segment` for the one called `name` and something harmless for the others."""
    path = route.replace(f"<str:{name}>", segment).replace("<int:number>", "1")
    return SEGMENT.sub("x", path)


def test_the_walk_sees_every_room():
    assert {route.split("/")[2] for _, route in EVERY if route.startswith("/v1/")} >= {
        "collections",
        "transactions",
        "capabilities",
        "keys",
        "grants",
        "workloads",
        "workers",
        "schedules",
        "triggers",
    }


def test_a_segment_that_is_not_well_encoded_is_refused_with_its_field_on_every_route(api, data_dir):
    client = api()
    for method, route in EVERY:
        for name in SEGMENT.findall(route):
            for segment in ("%ff", "%C0%AF", "%", "%zz"):
                answer = client.call(method, filled(route, name, segment), {})
                assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), (route, segment)
                assert answer.json()["details"] == {"field": NAMED_ELSE.get(name, name)}


def test_an_encoded_slash_is_a_character_like_any_other_on_every_route(api, data_dir):
    client = api()
    for method, route in EVERY:
        for name in SEGMENT.findall(route):
            found = [client.call(method, filled(route, name, segment), {}) for segment in ("a%2Fb", "a%20b")]
            assert [each.wsgi_request.resolver_match.route for each in found] == [route.removeprefix("/")] * 2
            assert found[0].status_code == found[1].status_code, (method, route)


ESCAPED = ("/v1/%72evision", "/v1/%63ollections", "/%76%31/revision", "/v1/colle%63tions/orders")


@pytest.mark.parametrize("path", ESCAPED)
def test_an_escape_of_what_needs_none_is_the_same_as_what_it_stands_for(api, data_dir, path):
    assert api().get(path).status_code == 200
    assert api().get(path.replace("%", "%25")).status_code == 404


@pytest.mark.parametrize("name", ["a/b", "dock 7/left %2F", "é", "..", "?#"])
def test_a_worker_of_any_name_is_reached_by_its_location(api, data_dir, name):
    made = api().post_json("/v1/workers/register", {"worker_id": name})
    assert made.status_code == 201, made.content
    assert api().get(made["Location"]).json()["worker_id"] == name
    beat = api().post_json(made["Location"] + "/heartbeat", {"incarnation_id": made.json()["incarnation_id"]})
    assert beat.status_code == 200, beat.content
    assert api().delete(made["Location"]).status_code == 204
