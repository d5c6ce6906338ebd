"""W3C Trace Context: what is a `traceparent`, and what of it is kept."""

import pytest

from apps.http import trace

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (GOOD, GOOD),
        (f"00-{TRACE}-{PARENT}-ff", f"00-{TRACE}-{PARENT}-ff"),
        (f"01-{TRACE}-{PARENT}-01-what-a-later-version-adds", f"01-{TRACE}-{PARENT}-01"),
        (f"cc-{TRACE}-{PARENT}-01", f"cc-{TRACE}-{PARENT}-01"),
    ],
)
def test_a_place_in_a_trace_is_kept(given, kept):
    assert trace.parent({"HTTP_TRACEPARENT": given}) == kept


@pytest.mark.parametrize(
    "given",
    [
        "",
        "nonsense",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-1",
        f" {GOOD}",
        f"{GOOD}\n",
        f"{GOOD},{GOOD}",
        f"00-{TRACE[:-1]}é-{PARENT}-01",
        f"01-{TRACE}-{PARENT}-01more",
    ],
)
def test_what_is_none_is_passed_over(given):
    assert trace.parent({"HTTP_TRACEPARENT": given}) is None


def test_a_request_has_none_by_default():
    assert trace.parent({}) is None
