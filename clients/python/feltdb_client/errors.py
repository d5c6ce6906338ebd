"""What can go wrong, as exceptions.

FeltDBError
├── ApiError                     the server refused: code, status, message, request_id, body
│   ├── NotFound                 NOT_FOUND and every other 404
│   ├── Conflict                 CONFLICT and every other 409
│   │   ├── VersionConflict      VERSION_CONFLICT        (current_version)
│   │   ├── PreconditionFailed   PRECONDITION_FAILED     (failure)
│   │   ├── FenceBroken          FENCE_BROKEN            (failure)
│   │   └── IdempotencyConflict  IDEMPOTENCY_CONFLICT
│   └── FeedCompacted            FEED_COMPACTED          (floor, head)
├── ImportStopped                a row cannot be stored: import_id, row, stored, code, body
├── ExportIncomplete             an export ended before its end: ask again
├── Unreachable                  no answer in time; a read, or a write that certainly did nothing
│   └── GaveUp                   a stream could not be opened again
└── OutcomeUnknown               a write whose outcome could not be learned in time (transaction_id)
"""

from typing import Any


class FeltDBError(Exception):
    """Anything this client raises."""


class Unreachable(FeltDBError):
    """The server gave no usable answer while patience lasted; nothing was changed."""


class GaveUp(Unreachable):
    """A stream could not be opened while patience lasted."""


class OutcomeUnknown(FeltDBError):
    """A write may or may not have happened: ask `outcome(error.transaction_id)` later, or repeat it with that id."""

    def __init__(self, transaction_id: str, message: str) -> None:
        super().__init__(message)
        self.transaction_id = transaction_id


class ExportIncomplete(FeltDBError):
    """An export ended before its end; what came of it is not all."""


class ImportStopped(FeltDBError):
    """Row `row` (from 1) cannot be stored. The first `stored` rows are in, nothing after. `body` is the refusal."""

    def __init__(self, import_id: str, *, row: int, stored: int, body: dict[str, Any]) -> None:
        self.import_id = import_id
        self.row = row
        self.stored = stored
        self.code = str(body.get("code", ""))
        self.body = body
        super().__init__(f"row {row}: {self.code}: {body.get('message', '')} (the first {stored} rows are in)")


class ApiError(FeltDBError):
    """The server refused. `code` is stable; `body` is the whole answer."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code", "UNREADABLE_ANSWER"))
        self.message = str(body.get("message", ""))
        self.request_id = str(body.get("request_id", ""))
        self.details = body.get("details")
        self.body = body
        super().__init__(f"{self.code}: {self.message} (status {status}, request {self.request_id})")


class NotFound(ApiError):
    """There is no such record, transaction, work or route."""


class Conflict(ApiError):
    """The request conflicts with what is there; nothing was changed."""


class VersionConflict(Conflict):
    """A compare-and-set found another version."""

    @property
    def current_version(self) -> int:
        """The record's version; 0 where there is no record."""
        return int(self.body.get("currentVersion", 0))


class PreconditionFailed(Conflict):
    """A transaction's condition did not hold."""

    @property
    def failure(self) -> dict[str, Any]:
        """Which one: predicate, collection, id, expected, actual."""
        return dict(self.body.get("failure", {}))


class FenceBroken(PreconditionFailed):
    """What a transaction rests on has changed since it was read."""


class IdempotencyConflict(Conflict):
    """The transaction id was used before with another request."""


class FeedCompacted(ApiError):
    """The feed no longer holds what comes after this cursor: read a snapshot and go on from there."""


BY_CODE: dict[str, type[ApiError]] = {
    "NOT_FOUND": NotFound,
    "CONFLICT": Conflict,
    "VERSION_CONFLICT": VersionConflict,
    "PRECONDITION_FAILED": PreconditionFailed,
    "FENCE_BROKEN": FenceBroken,
    "IDEMPOTENCY_CONFLICT": IdempotencyConflict,
    "FEED_COMPACTED": FeedCompacted,
}


def refusal(status: int, body: dict[str, Any]) -> ApiError:
    """Return the exception for a refusal."""
    kind = BY_CODE.get(str(body.get("code")), {404: NotFound, 409: Conflict}.get(status, ApiError))
    return kind(status, body)
