"""A small client for FeltDB.

    from feltdb_client import FeltDB

    with FeltDB("http://127.0.0.1:8000", key="fdb_...") as db:
        order = db.create("orders", {"amount": 250})
        db.merge("orders", order.id, {"status": "paid"})

Every write carries a transaction id, so that it is repeated safely when an answer is lost. The public names are those
listed below.
"""

from feltdb_client.client import NOW, START, FeltDB
from feltdb_client.errors import (
    ApiError,
    Conflict,
    ExportIncomplete,
    FeedCompacted,
    FeltDBError,
    FenceBroken,
    GaveUp,
    IdempotencyConflict,
    ImportStopped,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unreachable,
    VersionConflict,
)
from feltdb_client.model import (
    Actor,
    Basis,
    Changes,
    Contract,
    ContractCheck,
    Event,
    Exported,
    Imported,
    Operation,
    Outcome,
    Page,
    Record,
    delete,
    merge,
    put,
    require_absent,
    require_equal,
    require_present,
    require_version,
)
from feltdb_client.retry import Patience
from feltdb_client.working import Failed, Job

__all__ = [
    "NOW",
    "START",
    "Actor",
    "ApiError",
    "Basis",
    "Changes",
    "Conflict",
    "Contract",
    "ContractCheck",
    "Event",
    "ExportIncomplete",
    "Exported",
    "Failed",
    "FeedCompacted",
    "FeltDB",
    "FeltDBError",
    "FenceBroken",
    "GaveUp",
    "IdempotencyConflict",
    "ImportStopped",
    "Imported",
    "Job",
    "NotFound",
    "Operation",
    "Outcome",
    "OutcomeUnknown",
    "Page",
    "Patience",
    "PreconditionFailed",
    "Record",
    "Unreachable",
    "VersionConflict",
    "delete",
    "merge",
    "put",
    "require_absent",
    "require_equal",
    "require_present",
    "require_version",
]
