"""A request's headers looked up one by one are those that Django puts together."""

import pytest
from django.test import RequestFactory

from apps.http.headers import Headers

SENT = {
    "If-Match": '"3"',
    "Idempotency-Key": "a",
    "Content-Type": "application/json",
    "Last-Event-ID": "x",
    "X-Empty": "",
}


@pytest.mark.parametrize(
    "name", [*SENT, "content-length", "IF-MATCH", "if-none-match", "Cookie", "Wsgi.Input", "Method"]
)
def test_each_is_what_django_says(name: str) -> None:
    request = RequestFactory().put("/", b"{}", "application/json", headers=SENT)
    ours = Headers(request)
    assert ours.get(name) == request.headers.get(name)
    assert (name in ours) == (name in request.headers)
    assert ours.get(name, "none") == request.headers.get(name, "none")


def test_together_they_are_the_same() -> None:
    request = RequestFactory().put("/", b"{}", "application/json", headers=SENT)
    assert dict(Headers(request)) == dict(request.headers)
    assert len(Headers(request)) == len(request.headers)
