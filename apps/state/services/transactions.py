"""Transactions of several changes, and what became of one, asked for by its id."""

from dataclasses import replace
from typing import Any

import uuid_utils

from apps.http.errors import ApiError
from apps.state.calls import Call
from apps.state.inputs import Transaction
from apps.state.reading import invalid
from apps.state.services.committing import commit
from apps.state.services.doors import may_read, may_write
from apps.state.stores import store
from feltdb_engine import CommitResult
from feltdb_engine.errors import (
    FenceBroken,
    IdempotencyConflict,
    InvalidQuery,
    PreconditionFailed,
    RecordNotFound,
)
from feltdb_engine.fences import parse

# The reference names what was found, not what was asked for.
_FOUND = {"absent": "present", "present": "missing"}


def run(call: Call, wanted: Transaction) -> CommitResult:
    """Commit the transaction, whole or not at all.

    Without an id of the client's it gets one here, so that its outcome can always be asked for. Raises
    PRECONDITION_FAILED and FENCE_BROKEN with `failure`, the pointer of what did not hold and `committed: false`,
    IDEMPOTENCY_CONFLICT, COMMIT_UNKNOWN and the engine's refusals.
    """
    for mutation in wanted.mutations:
        may_write(call, mutation.collection)
    for condition in wanted.preconditions:
        may_read(call, condition.collection)
    opened = store(call.namespace)
    call = replace(call, transaction_id=wanted.transaction_id or str(uuid_utils.uuid7()))
    try:
        if call.collections is not None:
            _may_read_fenced(call, wanted.fences, opened.store_id)
        return commit(
            opened,
            call,
            wanted.mutations,
            wanted.preconditions,
            fences=wanted.fences,
            value_at=lambda at: _value_at(wanted.mutations[at].kind, at),
        )
    except PreconditionFailed as error:
        failure = dict(error.details)
        predicate, place = failure["predicate"], _place(failure.pop("pointer"), wanted, failure["predicate"])
        raise _refused({**failure, "predicate": _FOUND.get(predicate, predicate)}, place) from error
    except RecordNotFound as error:
        failure = dict(error.details)
        place = _place(failure.pop("pointer"), wanted, "merge")
        raise _refused({"predicate": "missing", **failure}, place) from error
    except InvalidQuery as error:  # a fence that is no token of this store
        raise invalid(error.message, pointer=error.details["pointer"]) from error
    except FenceBroken as error:
        raise ApiError(
            "FENCE_BROKEN",
            "What the transaction rests on has changed since it was read; read again and decide again.",
            details={"pointer": f"/fences/{error.details['fence']}"},
            committed=False,
            failure=_broken(error.details),
        ) from error
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


def _value_at(kind: str, at: int) -> str:
    names = {"merge": "/merge", "delete": ""}
    return f"/operations/{at}{names.get(kind, '/value')}"


_MEMBERS = {"version": "/expectedVersion", "absent": "/requireAbsent", "merge": "/merge"}


def _place(pointer: str, wanted: Transaction, asked: str) -> str:
    """Return the place in the request of the precondition or mutation that the engine names."""
    _, kind, number = pointer.split("/")
    return wanted.places[int(number)] if kind == "preconditions" else f"/operations/{number}{_MEMBERS[asked]}"


def _broken(details: dict[str, Any]) -> dict[str, Any]:
    """Say it as other failures are said: `predicate` names the kind, so the place of a broken one is `condition`."""
    said = {("condition" if name == "predicate" else name): value for name, value in details.items()}
    return {"predicate": "fence", **said}


def _may_read_fenced(call: Call, fences: tuple[str, ...], store_id: str) -> None:
    """A token is no right: a refusal would tell of collections that the key does not open."""
    for at, token in enumerate(fences):
        fence = parse(token, store_id, f"/fences/{at}")
        for collection in {each.collection for each in fence.records} | {each.collection for each in fence.predicates}:
            may_read(call, collection.decode())


def _refused(failure: dict[str, Any], place: str) -> ApiError:
    if "collection" in failure and "id" in failure:
        failure["key"] = f"{failure['collection']}:{failure['id']}"
    return ApiError(
        "PRECONDITION_FAILED",
        "The transaction was refused: a record is not as it asks for.",
        details={"pointer": place},
        committed=False,
        failure=failure,
    )
