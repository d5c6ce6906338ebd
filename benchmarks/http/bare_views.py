"""Views that only take JSON in and give JSON out: what a framework costs before anything is stored or found.

`/drf/...` through DRF's `APIView`, `/django/...` through plain Django, as their documentation shows them.
"""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchmarks.data import COLLECTION, value

VALUE = {name: each for name, each in value(7).items() if name != "id"}


def record(record_id: str) -> dict[str, Any]:
    """Return a record as FeltDB gives one."""
    key = f"{COLLECTION}:{record_id}"
    return {
        "id": record_id,
        "key": key,
        "version": 1,
        "sequence": 7,
        "updated_at_ms": 1_700_000_000_000,
        "value": VALUE,
    }


def outcome(body: dict[str, Any]) -> dict[str, Any]:
    """Return a transaction's outcome as FeltDB gives one."""
    ids = [f"operation:{'0' * 32}:{n}" for n, _ in enumerate(body["operations"])]
    return {"transactionId": body["transactionId"], "status": "committed", "duplicate": False, "operationIds": ids}


def page(body: dict[str, Any]) -> dict[str, Any]:
    """Return a query's answer as FeltDB gives one."""
    return {"records": [record(str(n)) for n in range(body["limit"])], "next_cursor": None, "exhausted": False}


class Bare(APIView):
    """DRF with nothing but JSON."""

    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []
    parser_classes = [JSONParser]
    renderer_classes = [JSONRenderer]


class Record(Bare):
    """One record."""

    def get(self, request: Request, record_id: str) -> Response:
        """Answer a record."""
        return Response(record(record_id))


class Collection(Bare):
    """Records."""

    def post(self, request: Request) -> Response:
        """Take a record in."""
        return Response({**record("new"), "value": request.data}, status=201)


class Transactions(Bare):
    """Transactions."""

    def post(self, request: Request) -> Response:
        """Take a transaction in."""
        return Response(outcome(request.data), status=201)


class Query(Bare):
    """Queries."""

    def post(self, request: Request) -> Response:
        """Answer a page."""
        return Response(page(request.data))


def plain_record(request: HttpRequest, record_id: str) -> HttpResponse:
    """Answer a record."""
    return JsonResponse(record(record_id))


@csrf_exempt
def plain_collection(request: HttpRequest) -> HttpResponse:
    """Take a record in."""
    return JsonResponse({**record("new"), "value": json.loads(request.body)}, status=201)


@csrf_exempt
def plain_transactions(request: HttpRequest) -> HttpResponse:
    """Take a transaction in."""
    return JsonResponse(outcome(json.loads(request.body)), status=201)


@csrf_exempt
def plain_query(request: HttpRequest) -> HttpResponse:
    """Answer a page."""
    return JsonResponse(page(json.loads(request.body)))


urlpatterns = [
    path(f"drf/collections/{COLLECTION}/<str:record_id>", Record.as_view()),
    path("drf/collections/written", Collection.as_view()),
    path("drf/transactions", Transactions.as_view()),
    path("drf/query", Query.as_view()),
    path(f"django/collections/{COLLECTION}/<str:record_id>", plain_record),
    path("django/collections/written", plain_collection),
    path("django/transactions", plain_transactions),
    path("django/query", plain_query),
]
