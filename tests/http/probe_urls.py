"""Routes of the tests' own: an echo and every kind of failure, behind the same middleware and handlers as all."""

from typing import Any

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import IntegrityError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from rest_framework import exceptions as drf
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.http.errors import ApiError
from apps.keys.models import ApiKey
from apps.keys.views import KeyedRequest, KeyedView
from feltdb_engine import errors as engine
from feltsite.urls import handler400, handler403, handler404, handler500
from feltsite.urls import urlpatterns as site

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

FAILURES: dict[str, Exception] = {
    "ours": ApiError("WORKLOAD_STALE_FENCE", "Old.", details={"token": 3}, headers={"X-Probe": "1"}, committed=False),
    "engine": engine.FeedCompacted("gone", floor=7, head=9),
    "full": engine.StorageFull("no room"),
    "unknown-commit": engine.DeadlineExceeded("late", committed="unknown", transaction_id="t1"),
    "drf-validation": drf.ValidationError({"name": ["too long"]}),
    "drf-throttled": drf.Throttled(wait=2.5),
    "http404": Http404("secret path"),
    "denied": PermissionDenied("secret reason"),
    "suspicious": SuspiciousOperation("secret suspicion"),
    "database": OperationalError("database is locked"),
    "database-full": OperationalError("database or disk is full"),
    "integrity": IntegrityError("secret constraint"),
    "bug": RuntimeError("secret bug"),
}


class Echo(KeyedView):
    """Gives back the body it read, and what the door knows of the caller."""

    scopes = {"GET": "state:read", "POST": "state:write", "PUT": None, "PATCH": None}
    max_body_bytes = 100_000

    def get(self, request: KeyedRequest) -> Response:
        """Say who is calling and where."""
        return Response({"namespace": request.namespace, "subject": request.principal.label})

    def post(self, request: KeyedRequest) -> Response:
        """Give the body back."""
        return Response({"value": request.data})

    put = post


class OptionalBody(KeyedView):
    """Where no body means an empty object."""

    scopes = {"POST": None}
    empty_body: Any = {}

    def post(self, request: KeyedRequest) -> Response:
        """Give the body back."""
        return Response({"value": request.data})


class Fail(KeyedView):
    """Raises what the path names."""

    scopes = {"GET": None}

    def get(self, request: KeyedRequest, kind: str) -> Response:
        """Raise."""
        raise FAILURES[kind]


class Lookup(KeyedView):
    """Looks something up by whatever the path holds."""

    scopes = {"GET": None}

    def get(self, request: KeyedRequest, key_id: str) -> Response:
        """Find nothing."""
        raise Http404(str(ApiKey.objects.filter(pk=key_id).first()))


class Unscoped(APIView):
    """A DRF view whose author forgot scopes."""

    def get(self, request: Any) -> Response:
        """Never reached."""
        return Response({"open": True})


def plain_bug(request: HttpRequest) -> HttpResponse:
    """A Django view that fails outside DRF."""
    raise RuntimeError("secret bug")


def plain_page(request: HttpRequest) -> HttpResponse:
    """A library's own HTML refusal."""
    return HttpResponse("<h1>secret page</h1>", status=405, headers={"Allow": "GET"})


def missing_host(request: HttpRequest) -> HttpResponse:
    """A view that asks for the host."""
    return HttpResponse(request.get_host())


urlpatterns = [
    *site,
    path("probe/echo", Echo.as_view()),
    path("probe/optional", OptionalBody.as_view()),
    path("probe/fail/<str:kind>", Fail.as_view()),
    path("probe/lookup/<str:key_id>", Lookup.as_view()),
    path("probe/unscoped", Unscoped.as_view()),
    path("probe/plain-bug", plain_bug),
    path("probe/plain-page", plain_page),
    path("probe/host", missing_host),
]
