"""Addresses have one spelling; scopes cover exactly what they say."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.keys.grants.errors import GrantInvalid
from apps.keys.grants.form import Resource
from apps.keys.grants.resources import address, check_address, check_scope, covers, within

TRAPS = [
    *("flow://app/..", "flow://app/x/../y", "flow://app/.", "flow://app/%2e%2e/x", "flow://app/%2E%2E/x"),
    *("flow://app/.%2e", "flow://app/%2e", "flow://app//x", "flow://app/x//y", "flow://app/", "flow://app/x/"),
    *("flow://app/x?y", "flow://app/x#y", "flow://app/x%3Fy", "flow://app/x%23y", "flow://app/%2F", "flow://app/a%2fb"),
    *("flow://app/a%5Cb", "flow://app/a\\b", "flow://app/%00", "flow://app/%0A", "flow://app/a\nb", "flow://app/%7F"),
    *("flow://app/%41", "flow://app/%c3%a4", "flow://app/ä", "flow://app/a b", "flow://app/%FF", "flow://app/%C3"),
    *("flow://app/%25", "flow://app/%252e%252e", "flow://app/%", "flow://app/%4", "flow://app/%zz", "flow://app/*"),
    *("flow://app/x/*", "flow://app/%2A", "flow://", "flow:///x", "flow:app", "FLOW://app", "flow://App", "flow://ap"),
    *("flow://app2", "flow://app@evil/x", "flow://app:80/x", "http://app/x", "", " flow://app", "flow://app\n"),
    *("flow://app/x%E2%80%AE", "flow://app/x%EF%BB%BF", "flow://app/" + "x" * 512),
]


@pytest.mark.parametrize("uri", TRAPS, ids=ascii)
def test_every_second_spelling_relative_part_and_hidden_separator_is_refused(uri: str) -> None:
    with pytest.raises(GrantInvalid):
        check_address(uri, "app")


@pytest.mark.parametrize(
    "uri",
    ["flow://app", "flow://app/workloads/workload_1", "flow://app/state/my.coll-x", "flow://app/state/%C3%A4%20b",
     "flow://app/..x", "flow://app/a@b:c"],
)  # fmt: skip
def test_plain_addresses_are_accepted(uri: str) -> None:
    check_address(uri, "app")


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4))
def test_an_address_made_from_segments_is_refused_or_reads_back_as_just_those_segments(segments: list[str]) -> None:
    try:
        uri = address("app", *segments)
    except (GrantInvalid, UnicodeEncodeError):
        return
    assert [unquote(part) for part in uri.removeprefix("flow://").split("/")] == ["app", *segments]
    check_address(uri, "app")


@given(st.text(alphabet="./%2eE5cfF#?*a\\", max_size=12))
def test_no_accepted_address_has_a_second_reading_after_decoding(tail: str) -> None:
    uri = f"flow://app/{tail}"
    try:
        check_address(uri, "app")
    except GrantInvalid:
        return
    once = unquote(uri)
    assert once == unquote(once)
    assert ".." not in once.split("/") and "//" not in once.removeprefix("flow://") and not set("?#\\*") & set(once)


@pytest.mark.parametrize(
    ("kind", "scope", "uri", "covered"),
    [
        ("APPLICATION", "flow://app", "flow://app", True),
        ("APPLICATION", "flow://app", "flow://app/state/orders", True),
        ("APPLICATION", "flow://app", "flow://app2/state", False),
        ("RESOURCE_PREFIX", "flow://app/x/*", "flow://app/x", True),
        ("RESOURCE_PREFIX", "flow://app/x", "flow://app/x/y/z", True),
        ("RESOURCE_PREFIX", "flow://app/x/*", "flow://app/xy", False),
        ("RESOURCE_PREFIX", "flow://app/x", "flow://app", False),
        ("COLLECTION", "flow://app/state/orders", "flow://app/state/orders", True),
        ("COLLECTION", "flow://app/state/orders", "flow://app/state/orders/1", False),
        ("WORKLOAD", "flow://app/workloads/*", "flow://app/workloads/w1", False),
        ("RESOURCE", "flow://app/a", "flow://app/A", False),
    ],
)
def test_a_scope_covers_by_whole_segments_and_below_only_for_the_two_kinds_that_say_so(
    kind: str, scope: str, uri: str, covered: bool
) -> None:
    assert covers(Resource(kind, scope), uri) is covered


@pytest.mark.parametrize(
    ("kind", "uri"),
    [
        ("WORKLOAD", "flow://app/workloads/*"),
        ("APPLICATION", "flow://app/x"),
        ("RESOURCE_PREFIX", "flow://app/*/x"),
        ("RESOURCE_PREFIX", "flow://app/x*"),
        ("RESOURCE_PREFIX", "flow://other/x/*"),
        ("RESOURCE_PREFIX", "flow://app/x/*/*"),
    ],
)
def test_a_scope_that_could_never_cover_what_it_seems_to_is_refused_when_it_is_given(kind: str, uri: str) -> None:
    with pytest.raises(GrantInvalid):
        check_scope(Resource(kind, uri), "app")


@pytest.mark.parametrize(
    ("inner", "outer", "inside"),
    [
        (("RESOURCE", "flow://app/x/y"), ("RESOURCE_PREFIX", "flow://app/x/*"), True),
        (("RESOURCE_PREFIX", "flow://app/x/y/*"), ("RESOURCE_PREFIX", "flow://app/x"), True),
        (("RESOURCE_PREFIX", "flow://app/x"), ("RESOURCE_PREFIX", "flow://app/x/*"), True),
        (("RESOURCE_PREFIX", "flow://app/xy"), ("RESOURCE_PREFIX", "flow://app/x"), False),
        (("RESOURCE_PREFIX", "flow://app/x"), ("RESOURCE", "flow://app/x"), False),
        (("APPLICATION", "flow://app"), ("RESOURCE_PREFIX", "flow://app/x"), False),
        (("RESOURCE_PREFIX", "flow://app/x"), ("APPLICATION", "flow://app"), True),
        (("COLLECTION", "flow://app/x"), ("RESOURCE", "flow://app/x"), True),
    ],
)
def test_one_scope_is_within_another_only_when_all_it_covers_is(
    inner: tuple[str, str], outer: tuple[str, str], inside: bool
) -> None:
    assert within(Resource(*inner), Resource(*outer)) is inside


_PART = st.sampled_from(["a", "b", "ab"])
_SCOPE = st.builds(
    lambda kind, parts: Resource(kind, "/".join(["flow://app", *parts])),
    st.sampled_from(["RESOURCE", "RESOURCE_PREFIX"]),
    st.lists(_PART, max_size=3),
)


@given(_SCOPE, _SCOPE, st.lists(_PART, max_size=4))
def test_whatever_a_scope_within_another_covers_the_other_covers_too(
    inner: Resource, outer: Resource, parts: list[str]
) -> None:
    uri = "/".join(["flow://app", *parts])
    if within(inner, outer) and covers(inner, uri):
        assert covers(outer, uri)
