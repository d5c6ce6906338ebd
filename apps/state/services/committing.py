"""How every write of this room reaches the engine: in the caller's name, within its deadline.

Not here: what the operations mean (`records.py`, `transactions.py`).
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from apps.http import canonical_json, measures
from apps.http.errors import ApiError
from apps.state.calls import Call
from feltdb_engine import CommitResult, EngineError, Mutation, Precondition, Store
from feltdb_engine.errors import InvalidValue, ValidationFailed


def commit(
    opened: Store,
    call: Call,
    mutations: Sequence[Mutation],
    preconditions: Sequence[Precondition] = (),
    *,
    fences: Sequence[str] = (),
    payload_hash: bytes | None = None,
    value_at: Callable[[int], str] | None = None,
) -> CommitResult:
    """Commit as `call` says. `value_at` names the place of a mutation's value in the request.

    Raises the engine's refusals, their pointers into the request where `value_at` is given, and COMMIT_UNKNOWN (with
    transactionId) where the outcome is not known.
    """
    try:
        done = opened.commit(
            mutations,
            preconditions=preconditions,
            fences=fences,
            transaction_id=call.transaction_id,
            payload_hash=payload_hash,
            actor=call.actor,
            at_ms=call.now_ms,
            deadline=call.deadline,
        )
    except EngineError as error:
        measures.COMMITS.labels("unknown" if error.committed == "unknown" else "refused").inc()
        if error.committed == "unknown":
            raise commit_unknown(call.transaction_id) from error
        if value_at is not None and isinstance(error, ValidationFailed):
            raise validation_failed(error, value_at) from error
        if value_at is not None and isinstance(error, InvalidValue):
            error.details["pointer"] = _in_request(error.details["pointer"], value_at)
        raise
    measures.COMMITS.labels("duplicate" if done.duplicate else "committed").inc()
    return done


def validation_failed(error: ValidationFailed, value_at: Callable[[int], str]) -> ApiError:
    """Return the refusal of what breaks the contract, its pointers into the request: `value_at` a mutation's value."""
    errors = []
    for each in error.details["errors"]:
        errors.append({**each, "pointer": _in_request(each["pointer"], value_at)})
    return ApiError("VALIDATION_FAILED", error.message, details={"errors": errors}, committed=False)


def _in_request(pointer: str, value_at: Callable[[int], str]) -> str:
    """Return the place in the request of `/mutations/<n>[/value...]`, as the engine names it."""
    parts = pointer.split("/")
    if parts[1:2] != ["mutations"]:
        return pointer
    return "/".join([value_at(int(parts[2])), *(parts[4:] if parts[3:4] == ["value"] else [])])


def commit_unknown(transaction_id: str | None) -> ApiError:
    """Return the refusal of a write whose outcome could not be learned in time."""
    how = "ask for it under /v1/transactions/{id}, or send the same request again with the same id"
    if transaction_id is None:
        how = "read the record before writing again; a write sent with an Idempotency-Key can simply be repeated"
    return ApiError(
        "COMMIT_UNKNOWN",
        f"Whether this was committed is not known yet: {how}.",
        headers={"Retry-After": "1"},
        committed="unknown",
        transactionId=transaction_id,
    )


def payload_hash(*request: Any) -> bytes:
    """Return the digest that tells one request under a transaction id from another."""
    return hashlib.sha256(canonical_json.dumps(list(request))).digest()
