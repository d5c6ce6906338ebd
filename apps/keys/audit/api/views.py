"""`/v1/audit`: the audit trail over HTTP. Thin: the rules are in `reading.py`."""

from dataclasses import astuple
from typing import Any

from django.http import HttpResponse
from rest_framework.response import Response

from apps.http.errors import ApiError
from apps.http.openapi import Answer, Schema, add_schemas, describe, query_parameter, ref
from apps.http.pages.exporting import answer, headed
from apps.keys import paging
from apps.keys.audit import exporting, limits, reading
from apps.keys.audit.models import AuditEvent
from apps.keys.permissions import namespace_of
from apps.keys.principal import EVERY_NAMESPACE
from apps.keys.views import KeyedRequest, KeyedView

_TAG = "Audit"
_TEXT: Schema = {"type": ["string", "null"]}
_EVENT: Schema = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at_ms": {"type": "integer"},
        "namespace": {**_TEXT, "description": "Null for what concerns the whole instance."},
        "principal_kind": _TEXT,
        "subject": {**_TEXT, "description": "`kind:id` of who did it, or was refused."},
        "key_id": _TEXT,
        "address": {**_TEXT, "description": "On refusals: where the request came from; an IPv6 /64."},
        "action": _TEXT,
        "target": _TEXT,
        "outcome": {"enum": list(AuditEvent.Outcome.values)},
        "code": {**_TEXT, "description": "The code of a refusal."},
        "reason": _TEXT,
        "request_id": _TEXT,
        "before_digest": {**_TEXT, "description": "SHA-256 of the canonical JSON before."},
        "after_digest": {**_TEXT, "description": "SHA-256 of the canonical JSON after."},
        "count": {"type": "integer", "description": "How many refusals this event stands for."},
    },
}
add_schemas({"AuditEvent": _EVENT})

_FILTERS = [
    query_parameter("namespace", "Only this namespace."),
    query_parameter("action", "Only this action, such as `key.revoked`."),
    query_parameter("outcome", "`done`, `denied` or `failed`.", {"enum": list(AuditEvent.Outcome.values)}),
    query_parameter("code", "Only refusals with this code."),
    query_parameter("subject", "Only this subject, `kind:id`."),
    query_parameter("key_id", "Only this key."),
    query_parameter("target", "Only this target."),
    query_parameter("request_id", "Only this request."),
    query_parameter("from_ms", "Not before this instant.", {"type": "integer"}),
    query_parameter("to_ms", "Not after this instant.", {"type": "integer"}),
]


class Audit(KeyedView):
    """`GET /v1/audit`."""

    scopes = {"GET": "audit:read"}
    namespaced = False

    @describe(
        "list_audit_events",
        "The audit trail, newest first",
        tag=_TAG,
        parameters=[*_FILTERS, *paging.parameters(default=limits.DEFAULT_PAGE, maximum=limits.MAX_PAGE)],
        answers={
            200: paging.answer(
                "The events of the namespaces the key may enter; those of the instance to a key for all of them.",
                "events",
                ref("AuditEvent"),
            )
        },
        errors=["INVALID_CURSOR", "VALIDATION_ERROR"],
    )
    def get(self, request: KeyedRequest) -> Response:
        """Answer 200 with a page."""
        asked, filters = request.query_params, filters_of(request)
        shape = ("audit", *sorted(request.principal.namespaces), "where", *astuple(filters))
        page = reading.page(
            request.principal,
            filters,
            below=paging.decode(asked.get("cursor"), *shape),
            limit=paging.read_limit(asked.get("limit"), default=limits.DEFAULT_PAGE, maximum=limits.MAX_PAGE),
        )
        events = [reading.shape(event) for event in page.events]
        return Response({"events": events, "next_cursor": paging.encode(page.below, *shape)})


class AuditExport(KeyedView):
    """`GET /v1/audit/export`."""

    scopes = {"GET": "audit:read"}
    namespaced = False

    @describe(
        "export_audit_events",
        "The audit trail as NDJSON, oldest first",
        tag=_TAG,
        description="One event a line, in ASCII: what is not is escaped. Events after the request began are left out.",
        parameters=_FILTERS,
        answers={200: Answer("A stream of `application/x-ndjson`.")},
        errors=["VALIDATION_ERROR"],
    )
    def get(self, request: KeyedRequest) -> Any:
        """Answer 200 with the stream; 503 while as many are under way as may be."""
        filters = filters_of(request)
        if request.method == "HEAD":
            return headed(HttpResponse(), form="ndjson", name="audit")
        lines = exporting.begin(request.principal, filters, form="ndjson", target="/v1/audit/export")
        return answer(lines, form="ndjson", name="audit")


def filters_of(request: KeyedRequest) -> reading.Filters:
    """Return the filters of the query, the header FeltDB-Namespace counting as one. Raises ApiError."""
    asked = request.query_params
    namespace = asked.get("namespace") or request.META.get("HTTP_FELTDB_NAMESPACE") or None
    if namespace is not None:
        namespace = namespace_of(request.principal, namespace)
    elif EVERY_NAMESPACE not in request.principal.namespaces and len(request.principal.namespaces) == 1:
        namespace = next(iter(request.principal.namespaces))
    outcome = asked.get("outcome") or None
    if outcome is not None and outcome not in AuditEvent.Outcome.values:
        raise _wrong("outcome", f"one of {', '.join(AuditEvent.Outcome.values)}")
    return reading.Filters(
        namespace=namespace,
        outcome=outcome,
        from_ms=_instant(asked.get("from_ms"), "from_ms"),
        to_ms=_instant(asked.get("to_ms"), "to_ms"),
        **{name: _text(asked.get(name), name) for name in ("action", "code", "subject", "key_id", "target")},
        request_id=_text(asked.get("request_id"), "request_id"),
    )


def _text(value: str | None, name: str) -> str | None:
    if value and not (len(value) <= limits.MAX_TARGET_CHARS and value.isprintable()):
        raise _wrong(name, f"at most {limits.MAX_TARGET_CHARS} printable characters")
    return value or None


def _instant(text: str | None, name: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise _wrong(name, "milliseconds since 1970")
    return int(text)


def _wrong(field: str, message: str) -> ApiError:
    return ApiError("VALIDATION_ERROR", f"{field}: send {message}.", details={"field": field})
