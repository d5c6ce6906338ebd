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
from feltdb_engine.errors import ValidationFailed


def commit(
    opened: Store,
    call: Call,
    mutations: Sequence[Mutation],
    preconditions: Sequence[Precondition] = (),
    *,
    fences: Sequence[str] = (),
    payload_hash: bytes | None = None,
) -> CommitResult:
    """Commit as `call` says.

    Raises the engine's refusals, and COMMIT_UNKNOWN (with transactionId) where the outcome is not known.
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
        raise
    measures.COMMITS.labels("duplicate" if done.duplicate else "committed").inc()
    return done


def validation_failed(error: ValidationFailed, value_at: Callable[[int], str]) -> ApiError:
    """Return the refusal of what breaks the contract, its pointers into the request: `value_at` a mutation's value."""
    errors = []
    for each in error.details["errors"]:
        _, _, _, *rest = each["pointer"].split("/")
        inside = "/".join(["", *rest[1:]]) if rest[:1] == ["value"] else ""
        errors.append({**each, "pointer": value_at(each["mutation"]) + inside})
    return ApiError("VALIDATION_FAILED", error.message, details={"errors": errors}, committed=False)


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
