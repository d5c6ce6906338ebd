"""Transactions of several changes, and what became of one, asked for by its id."""

from dataclasses import replace
from typing import Any

import uuid_utils

from apps.http.errors import ApiError
from apps.state.calls import Call
from apps.state.inputs import Transaction
from apps.state.services.committing import commit
from apps.state.services.doors import may_read, may_write
from apps.state.stores import store
from feltdb_engine import CommitResult
from feltdb_engine.errors import IdempotencyConflict, PreconditionFailed, RecordNotFound

# The reference names what was found, not what was asked for.
_FOUND = {"absent": "present", "present": "missing"}


def run(call: Call, wanted: Transaction) -> CommitResult:
    """Commit the transaction, whole or not at all.

    Without an id of the client's it gets one here, so that its outcome can always be asked for. Raises
    PRECONDITION_FAILED with `failure` and `committed: false`, IDEMPOTENCY_CONFLICT, COMMIT_UNKNOWN and the
    engine's refusals.
    """
    for mutation in wanted.mutations:
        may_write(call, mutation.collection)
    for condition in wanted.preconditions:
        may_read(call, condition.collection)
    call = replace(call, transaction_id=wanted.transaction_id or str(uuid_utils.uuid7()))
    try:
        return commit(store(call.namespace), call, wanted.mutations, wanted.preconditions)
    except PreconditionFailed as error:
        details = dict(error.details)
        raise _refused({**details, "predicate": _FOUND.get(details["predicate"], details["predicate"])}) from error
    except RecordNotFound as error:
        raise _refused({"predicate": "missing", **error.details}) from error
    except IdempotencyConflict as error:
        raise ApiError(
            "IDEMPOTENCY_CONFLICT",
            "This transaction id was used before with another request.",
            committed=False,
            transactionId=call.transaction_id,
        ) from error


def outcome(call: Call, transaction_id: str) -> CommitResult:
    """Return what became of a transaction. Raises NOT_FOUND where nothing was committed under this id."""
    found = store(call.namespace).transaction(transaction_id)
    if found is None:
        raise ApiError("NOT_FOUND", "No transaction with this id is known.")
    return found


def _refused(failure: dict[str, Any]) -> ApiError:
    if "collection" in failure and "id" in failure:
        failure["key"] = f"{failure['collection']}:{failure['id']}"
    return ApiError(
        "PRECONDITION_FAILED",
        "The transaction was refused: a record is not as it asks for.",
        committed=False,
        failure=failure,
    )
