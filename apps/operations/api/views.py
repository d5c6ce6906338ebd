"""Health, readiness, status and metrics over HTTP.

Health and readiness are open to everybody and then name no namespace: where and what exactly is for operators.
"""

import logging
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from rest_framework.request import Request

from apps.http import envelope, strict_json
from apps.http.codes import CODES
from apps.http.errors import ApiError
from apps.keys.views import KeyedRequest, KeyedView, OpenView
from apps.operations.api import access, described
from apps.operations.metrics import exposition
from apps.operations.services.health import Observation, observe
from apps.workloads.clock import now_ms

logger = logging.getLogger("feltdb.operations")

BLOCKED = "readiness check temporarily unavailable"
"""The reference's own words for a check that could not be made."""


def answer(document: dict[str, Any], status: int = 200) -> HttpResponse:
    """Return `document` as JSON that no cache keeps."""
    response = HttpResponse(strict_json.dumps(document), status=status, content_type="application/json")
    response["Cache-Control"] = "no-store"
    return response


class FrontDoorView(OpenView):
    """The address as it stands in the log: leads people to the console, and tells programs where everything is."""

    def get(self, request: Request) -> HttpResponse:
        """Answer a browser 302 to the console, anybody else 200 with the addresses."""
        console = reverse("admin:index")
        if "text/html" in request.headers.get("Accept", ""):
            response: HttpResponse = HttpResponseRedirect(console)
        else:
            response = answer(
                {
                    "name": "FeltDB",
                    "version": settings.FELTDB_VERSION,
                    "console": console,
                    "docs": reverse("docs"),
                    "openapi": reverse("openapi"),
                    "health": reverse("v1-health"),
                }
            )
        patch_vary_headers(response, ["Accept"])
        return response


class HealthView(OpenView):
    """Liveness."""

    @described.health
    def get(self, request: Request) -> HttpResponse:
        """Answer 200 as long as the process answers; `status` says whether it is well."""
        seen = observe()
        return answer(
            {
                "status": "healthy" if seen.healthy else "degraded",
                "version": settings.FELTDB_VERSION,
                "storage": seen.storage,
                "writes": seen.writes,
                "membership": seen.membership,
                "clock": seen.clock,
                "reasons": _reasons(request._request, seen),
            }
        )


class ReadyView(OpenView):
    """Readiness."""

    @described.ready
    def get(self, request: Request) -> HttpResponse:
        """Answer 200 when the database answers and every store gives a read and takes a forced write, else 503."""
        try:
            seen = observe(write=True)
        except Exception:
            logger.exception("the readiness check failed")
            error = ApiError("STORAGE_PROBE_FAILED", BLOCKED, ready=False, state="unavailable", probe_ms=0)
            return envelope.response(request._request, error)
        return _or_refusal(request._request, seen, _readiness(request._request, seen))


def _readiness(request: HttpRequest, seen: Observation) -> dict[str, Any]:
    return {
        "ready": seen.ready,
        "state": seen.state,
        "storage": seen.storage,
        "durable_format": seen.durable_format,
        "reads": "available" if seen.ready or all(each.health for each in seen.stores) else "unavailable",
        "writes": seen.writes,
        "probe_ms": seen.probe_ms,
        "reasons": _reasons(request, seen),
    }


def _or_refusal(request: HttpRequest, seen: Observation, body: dict[str, Any]) -> HttpResponse:
    """Return `body` where the instance is ready, else the same members beside those of the refusal."""
    if seen.ready:
        return answer(body)
    refused = envelope.response(request, _not_ready(seen, **body))
    refused["Cache-Control"] = "no-store"
    return refused


def _not_ready(seen: Observation, **members: Any) -> ApiError:
    blocking = next(each for each in seen.reasons if each.blocking)
    known = CODES.get(blocking.code)  # whatever is wrong, a probe is told 503: STORAGE_FULL is 507 for writes alone
    code = blocking.code if known is not None and known.status == 503 else "STORAGE_UNAVAILABLE"
    return ApiError(code, f"Not ready: {blocking.code}. {blocking.next_step}", headers={"Retry-After": "1"}, **members)


def _reasons(request: HttpRequest, seen: Observation) -> list[dict[str, Any]]:
    shown = [asdict(each) for each in seen.reasons]
    if not access.is_operator(request):
        for each in shown:
            del each["subject"], each["message"]
    return shown


class ReadyInShortView(OpenView):
    """Readiness as a word, refused with the envelope: for clients that ask before they begin."""

    def get(self, request: Request) -> HttpResponse:
        """Answer 200 when the instance is ready, else 503."""
        try:
            seen = observe(write=True)
        except Exception as error:
            logger.exception("the readiness check failed")
            raise ApiError("STORAGE_UNAVAILABLE", BLOCKED, headers={"Retry-After": "1"}) from error
        if not seen.ready:
            raise _not_ready(seen)
        return answer({"status": "ready", "storage": "writable", "authentication": "required", "clock": seen.clock})


class MetricsView(OpenView):
    """Metrics in Prometheus' text format, for a key with `operator:read` or a caller on this host."""

    def get(self, request: Request) -> HttpResponse:
        """Answer with them all."""
        access.require_operator(request._request)
        response = HttpResponse(exposition.text(), content_type=exposition.CONTENT_TYPE)
        response["Cache-Control"] = "no-store"
        return response


class StatusView(KeyedView):
    """The operator's view of the whole instance."""

    scopes = {"GET": "operator:read"}
    namespaced = False

    @described.status
    def get(self, request: KeyedRequest) -> HttpResponse:
        """Answer 200 where the instance is ready, else 503, with every store's own standing."""
        seen = observe(write=True)
        body = {
            "status": "available" if seen.healthy else "degraded",
            "version": settings.FELTDB_VERSION,
            "ready": seen.ready,
            "state": seen.state,
            "checked_at_ms": now_ms(),
            "membership": seen.membership,
            "clock": seen.clock,
            "probe_ms": seen.probe_ms,
            "stores": [_store(each) for each in seen.stores],
            "reasons": [asdict(each) for each in seen.reasons],
        }
        return _or_refusal(request._request, seen, body)


def _store(each: Any) -> dict[str, Any]:
    known = each.health
    return {
        "namespace": each.namespace,
        "storage": known.storage if known else "unavailable",
        "write": each.writes,
        "store_id": known.store_id if known else None,
        "instance_id": known.instance_id if known else None,
        "revision": known.head if known else None,
        "floor": known.floor if known else None,
        "written_bytes": known.written if known else None,
        "durable_bytes": known.durable if known else None,
        "recovered_at_byte": known.byte_offset if known else None,
        "discarded_bytes": known.discarded_bytes if known else None,
        "durable_format": known.durable_format if known else None,
    }
