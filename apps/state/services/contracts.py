"""The namespace's contract: what it is, what stored records would break, bringing one into force.

The rules and how they are kept are the engine's (`feltdb_engine/contract.py`). Checking looks at every record the
contract speaks of, so it takes as long as those take; while it does it holds no permit.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from apps.http import budget
from apps.http.errors import ApiError
from apps.state.calls import Call
from apps.state.conditions import Conditions, failed
from apps.state.limits import CONTRACT_MAX_S
from apps.state.services.doors import may_read, may_write
from apps.state.stores import store
from feltdb_engine import ContractInfo, ContractReport
from feltdb_engine.contract import parse
from feltdb_engine.errors import ContractBroken, ContractConflict, ContractInvalid

_turn = threading.Lock()


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What became of checking a contract: its digest and a report, or the fault that makes it none."""

    digest: str | None
    report: ContractReport | None
    fault: tuple[str, str] | None = None


def current(call: Call) -> ContractInfo:
    """Return the contract in force, those of its collections that the caller's key opens."""
    found = store(call.namespace).contract()
    return replace(found, contract=_seen(call, found.contract), pending=found.pending and _seen(call, found.pending))


def check(call: Call, contract: Any) -> Checked:
    """Say what stored records would break the contract; nothing is changed."""
    try:
        parsed = parse(contract)
    except ContractInvalid as error:
        return Checked(digest=None, report=None, fault=(str(error.details.get("pointer", "")), error.message))
    for collection in parsed.parts:
        may_read(call, collection)
    with _alone() as deadline:
        report = store(call.namespace).check_contract(contract, deadline=deadline)
    return Checked(digest=parsed.digest, report=report)


def activate(call: Call, contract: Any, conditions: Conditions) -> ContractInfo:
    """Bring the contract into force, in place of the one before, while others read and write.

    Raises CONTRACT_INVALID, CONTRACT_BROKEN with the report, CONTRACT_CONFLICT, IF_MATCH_FAILED; nothing is changed
    then. A key for some collections must open all that this or the contract before speaks of.
    """
    opened = store(call.namespace)
    before = opened.contract()
    for collection in {*parse(contract).parts, *_names(before.contract)}:
        may_write(call, collection)
    if conditions and not conditions.hold(before.revision or None):
        raise failed(before.revision)
    with _alone() as deadline:
        try:
            return opened.activate_contract(
                contract, if_revision=before.revision if conditions else None, deadline=deadline
            )
        except ContractBroken as error:
            raise ApiError(
                "CONTRACT_BROKEN",
                "Stored records break this contract; nothing was changed.",
                report=error.details["report"],
            ) from error
        except ContractConflict as error:
            raise ApiError("CONTRACT_CONFLICT", error.message, details=error.details) from error


def withdraw(call: Call) -> None:
    """Let go of a contract that a process proposed and died over. Raises NOT_FOUND where there is none."""
    opened = store(call.namespace)
    for collection in _names(opened.contract().pending):
        may_write(call, collection)
    if not opened.withdraw_contract():
        raise ApiError("NOT_FOUND", "No contract is being activated.")


def _names(contract: Any) -> list[str]:
    return list(contract["collections"]) if contract else []


def _seen(call: Call, contract: Any) -> dict[str, Any]:
    collections = contract["collections"]
    if call.collections is not None:
        collections = {name: part for name, part in collections.items() if name in call.collections}
    return {"collections": dict(collections)}


@contextmanager
def _alone() -> Iterator[float]:
    """Take this process's only place for such work, and give until when it may take."""
    if not _turn.acquire(blocking=False):
        raise ApiError(
            "SERVICE_OVERLOADED", "Another contract is being checked here; try again.", headers={"Retry-After": "5"}
        )
    try:
        with budget.waiting(CONTRACT_MAX_S):
            yield budget.deadline(CONTRACT_MAX_S) - 1.0
    finally:
        _turn.release()
