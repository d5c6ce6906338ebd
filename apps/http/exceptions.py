"""From any exception in a view to the one refusal: ours, the engine's, DRF's, Django's, the database's.

Not here: the shape (`envelope.py`) and the statuses (`codes.py`).
"""

import logging
from typing import Any

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, ProgrammingError
from django.http import Http404
from rest_framework import exceptions as drf
from rest_framework.response import Response
from rest_framework.views import set_rollback

from apps.http import budget, envelope
from apps.http.errors import ApiError, authentication_required
from apps.http.handlers import suspicious
from feltdb_engine import errors as engine

logger = logging.getLogger("feltdb.http")

_PG_DISK_FULL = "53100"

ENGINE_CODES: dict[str, str] = {
    "ENGINE_ERROR": "INTERNAL_ERROR",
    "INVALID_KEY": "VALIDATION_ERROR",
    "INVALID_VALUE": "VALIDATION_FAILED",
    "INVALID_QUERY": "INVALID_QUERY",
    "INVALID_CURSOR": "INVALID_CURSOR",
    "INVALID_PIN": "VALIDATION_ERROR",
    "PIN_NOT_FOUND": "NOT_FOUND",
    "TOO_MANY_PINS": "INTERNAL_ERROR",
    "RECORD_NOT_FOUND": "NOT_FOUND",
    "PRECONDITION_FAILED": "PRECONDITION_FAILED",
    "VALIDATION_FAILED": "VALIDATION_FAILED",
    "CONTRACT_INVALID": "CONTRACT_INVALID",
    "CONTRACT_BROKEN": "CONTRACT_BROKEN",
    "CONTRACT_CONFLICT": "CONTRACT_CONFLICT",
    "FENCE_BROKEN": "FENCE_BROKEN",
    "IDEMPOTENCY_CONFLICT": "IDEMPOTENCY_CONFLICT",
    "TRANSACTION_TOO_LARGE": "TRANSACTION_TOO_LARGE",
    "SCAN_LIMIT_EXCEEDED": "SCAN_LIMIT_EXCEEDED",
    "FEED_COMPACTED": "FEED_COMPACTED",
    "CURSOR_UNKNOWN": "CURSOR_UNKNOWN",
    "CURSOR_AHEAD": "CURSOR_AHEAD",
    "DEADLINE_EXCEEDED": "SERVICE_OVERLOADED",
    "STORE_READ_ONLY": "STORAGE_READ_ONLY",
    "STORE_NOT_FOUND": "STORAGE_UNAVAILABLE",
    "STORE_CLOSED": "STORAGE_UNAVAILABLE",
    "STORE_FORKED": "STORAGE_UNAVAILABLE",
    "STORE_REBUILDING": "STORAGE_REBUILDING",
    "FORMAT_UNSUPPORTED": "STORAGE_UNAVAILABLE",
    "COMPACTION_RUNNING": "INTERNAL_ERROR",
    "DESTINATION_EXISTS": "INTERNAL_ERROR",
    "BACKUP_INVALID": "INTERNAL_ERROR",
    "STORAGE_ERROR": "STORAGE_ERROR",
    "STORAGE_FULL": "STORAGE_FULL",
    "STORAGE_WRITE_FAILED": "STORAGE_WRITE_FAILED",
    "STORAGE_FAILED": "STORAGE_FAILED",
    "LOG_CORRUPT": "STORAGE_CORRUPT",
}
"""The engine's stable codes, each with its code over HTTP. A test holds it complete."""

_NEVER_COMMITTED = (
    engine.PreconditionFailed,
    engine.FenceBroken,
    engine.IdempotencyConflict,
    engine.ValidationFailed,
    engine.InvalidValue,
    engine.TransactionTooLarge,
)

RETRY_SOON = {"Retry-After": "1"}
"""For refusals that pass by themselves within about a second."""


def exception_handler(exception: Exception, context: dict[str, Any]) -> Response:
    """DRF's hook: every exception of a view becomes an envelope; nothing is raised further."""
    error = refusal(exception)
    if error.status >= 500 and not isinstance(exception, ApiError):
        unforeseen = exception if error.code == "INTERNAL_ERROR" else None
        logger.error("%s: %s", error.code, exception, exc_info=unforeseen)
    set_rollback()
    if getattr(context.get("view"), "writes", False):
        _say_outcome(error, exception)
    request = context.get("request")
    answer = Response(envelope.body(error, getattr(request, "request_id", "")), status=error.status)
    envelope.set_headers(answer, error.headers)
    envelope.mark(answer, error)
    return answer


def refusal(exception: Exception) -> ApiError:
    """Return what `exception` is to the caller. Unknown exceptions are INTERNAL_ERROR, without their text."""
    if isinstance(exception, ApiError):
        return exception
    if isinstance(exception, engine.EngineError):
        return engine_refusal(exception)
    if isinstance(exception, drf.APIException):
        return _drf_refusal(exception)
    if isinstance(exception, Http404):
        return ApiError("NOT_FOUND", "There is nothing at this path.")
    if isinstance(exception, PermissionDenied):
        return ApiError("FORBIDDEN", "This is not allowed.")
    if isinstance(exception, SuspiciousOperation):
        return suspicious(exception)
    if isinstance(exception, ValueError | DataError) and "NUL" in str(exception):
        # PostgreSQL takes no NUL; a view that looked something up by such a text meant no harm.
        return ApiError("VALIDATION_ERROR", "A value in the request's target cannot hold NUL.")
    if _is_full_disk(exception):
        return ApiError(
            "STORAGE_FULL", "There is no room left on the database's disk. Nothing was changed; reads go on."
        )
    if _is_database_outage(exception):
        return ApiError("DATABASE_UNAVAILABLE", "The database is busy or away; try again.", headers=RETRY_SOON)
    return ApiError("INTERNAL_ERROR", "The server failed; its log has the reason.")


def _say_outcome(error: ApiError, exception: Exception) -> None:
    """Say of a refused write whether it may have happened: as the engine does, else not, unless something broke."""
    if isinstance(exception, engine.EngineError):
        said: Any = exception.committed
    else:
        said = "unknown" if error.code == "INTERNAL_ERROR" else False
    error.members.setdefault("committed", said)


def engine_refusal(exception: engine.EngineError) -> ApiError:
    """Return an engine refusal as the caller sees it; `committed` goes out whenever a write may be meant."""
    code = ENGINE_CODES[exception.code]
    if isinstance(exception, engine.DeadlineExceeded) and exception.committed is False:
        return budget.late(committed=False)
    members: dict[str, Any] = {}
    if isinstance(exception, _NEVER_COMMITTED):
        members["committed"] = False
    if isinstance(exception, engine.DeadlineExceeded | engine.StorageError):
        members["committed"] = exception.committed
    if exception.committed == "unknown":
        code = "COMMIT_UNKNOWN"
    if isinstance(exception, engine.PreconditionFailed | engine.FenceBroken):
        members["failure"] = exception.details
    return ApiError(
        code,
        exception.message,
        details=exception.details or None,
        headers=RETRY_SOON if code in ("COMMIT_UNKNOWN", "STORAGE_REBUILDING") else None,
        **members,
    )


def _drf_refusal(exception: drf.APIException) -> ApiError:
    if isinstance(exception, drf.ValidationError):
        return ApiError("VALIDATION_ERROR", "The request is not valid.", details=exception.detail)
    if isinstance(exception, drf.NotAuthenticated | drf.AuthenticationFailed):
        return authentication_required()
    if isinstance(exception, drf.MethodNotAllowed):
        return ApiError("METHOD_NOT_ALLOWED", str(exception.detail))
    if isinstance(exception, drf.Throttled):
        wait = str(max(1, int(getattr(exception, "wait", None) or 1)))
        return ApiError("RATE_LIMITED", str(exception.detail), headers={"Retry-After": wait})
    codes = {
        400: "JSON_INVALID",
        403: "FORBIDDEN",
        404: "NOT_FOUND",
        406: "NOT_ACCEPTABLE",
        415: "UNSUPPORTED_MEDIA_TYPE",
    }
    code = codes.get(exception.status_code, "INTERNAL_ERROR")
    return ApiError(code, str(exception.detail))


def _is_full_disk(exception: Exception) -> bool:
    """SQLite says so in words only; PostgreSQL by its code."""
    if not isinstance(exception, DatabaseError):
        return False
    return "disk is full" in str(exception) or getattr(exception.__cause__, "sqlstate", None) == _PG_DISK_FULL


def _is_database_outage(exception: Exception) -> bool:
    ours = IntegrityError | DataError | ProgrammingError
    return isinstance(exception, DatabaseError | InterfaceError) and not isinstance(exception, ours)
