"""The one shape of every refusal, as bytes. Not here: which exception becomes which code (`exceptions.py`)."""

import secrets
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.http import strict_json
from apps.http.codes import CODES
from apps.http.errors import ApiError

PROBLEM_TYPE = "urn:feltdb:code:"


def new_request_id() -> str:
    """Return a fresh request id: `req_` and 32 hex digits."""
    return "req_" + secrets.token_hex(16)


def body(error: ApiError, request_id: str) -> dict[str, Any]:
    """Return the envelope of a refusal: code, error, message, request_id, type, title, status, details, members."""
    envelope: dict[str, Any] = {
        "code": error.code,
        "error": error.code,
        "message": error.message,
        "request_id": request_id,
        "type": PROBLEM_TYPE + error.code.lower().replace("_", "-"),
        "title": CODES[error.code].title,
        "status": error.status,
    }
    if error.details is not None:
        envelope["details"] = error.details
    return {**error.members, **envelope}


def response(request: HttpRequest, error: ApiError) -> HttpResponse:
    """Return the refusal as a plain Django response, for what never reaches a DRF view."""
    answer = HttpResponse(
        strict_json.dumps(body(error, getattr(request, "request_id", ""))),
        status=error.status,
        content_type="application/json",
    )
    set_headers(answer, error.headers)
    mark(answer, error)
    return answer


def mark(answer: HttpResponseBase, error: ApiError) -> None:
    """Note on the answer what it refuses, for those who count and log answers."""
    answer.refusal = error  # type: ignore[attr-defined]


def set_headers(answer: HttpResponse, headers: Mapping[str, str]) -> None:
    """Put `headers` on the answer."""
    for name, value in headers.items():
        answer[name] = value
