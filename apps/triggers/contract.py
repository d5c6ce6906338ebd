"""The match contract `feltdb.trigger.match`: whether one change is one trigger's business, and if not, why not. Pure.

Input, in canonical JSON (`apps.http.canonical_json`); `value` is left out where the change has none, `predicate` where
the trigger has none, and nothing else may take part (no clock, no id, no sequence, no hash):

    {"change":   {"change_kind", "collection", "value", "previous"},
     "contract": "feltdb.trigger.match",
     "trigger":  {"change_kind", "enabled", "predicate", "source_collection"},
     "version":  1}

Version 1 knows the predicate `{"field", "equals"}`; an input that needs more (`predicate.py`) is of version 2, else the
same. `previous` is the record before an update, there only where the predicate reads it (version 2). `value` of a
delete is the record it removed. A trigger on several kinds of change is, for one change, the trigger on that kind.

The checks run in this order, and the first that fails is the reason:

    trigger_disabled, collection_mismatch, change_kind_mismatch, [no predicate: matched,] change_value_absent,
    predicate_field_absent or predicate_value_mismatch or change_previous_absent, matched

`change_previous_absent` says that the answer hangs on the record before an update, which the change does not carry.

Output: `{"contract", "version"}` with either `"outcome": {"matched", "reason"}` or `"error": {"code"}`; an error never
matches.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NoReturn

from apps.http import canonical_json
from apps.triggers.predicate import ABSENT, UNKNOWN, Predicate, PredicateInvalid, Verdict, parse
from feltdb_engine.model import Operation

CONTRACT_ID: Final = "feltdb.trigger.match"
CONTRACT_VERSION: Final = 1
TREE_VERSION: Final = 2
CHANGE_KINDS: Final = ("insert", "update", "delete")
RUNTIME: Final = "native"


class Reason(StrEnum):
    """Why a change does or does not match, in the order of the checks."""

    TRIGGER_DISABLED = "trigger_disabled"
    COLLECTION_MISMATCH = "collection_mismatch"
    CHANGE_KIND_MISMATCH = "change_kind_mismatch"
    CHANGE_VALUE_ABSENT = "change_value_absent"
    PREDICATE_FIELD_ABSENT = "predicate_field_absent"
    PREDICATE_VALUE_MISMATCH = "predicate_value_mismatch"
    CHANGE_PREVIOUS_ABSENT = "change_previous_absent"
    MATCHED = "matched"


class ErrorCode(StrEnum):
    """Why an input cannot be decided."""

    CONTRACT_INPUT_INVALID = "CONTRACT_INPUT_INVALID"
    CONTRACT_ID_MISMATCH = "CONTRACT_ID_MISMATCH"
    CONTRACT_VERSION_UNSUPPORTED = "CONTRACT_VERSION_UNSUPPORTED"


class ContractError(ValueError):
    """An input that cannot be decided."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """The part of a change that the decision depends on. `value` is `ABSENT` where the change carries none.

    `previous` is the record before an update, `ABSENT` where it is not known or nobody asks; others have none.
    """

    change_kind: str
    collection: str
    value: Any = ABSENT
    previous: Any = ABSENT

    @property
    def before(self) -> Any:
        """The record before the change: `ABSENT` where there was none, `UNKNOWN` where it is not known."""
        if self.change_kind == "update":
            return UNKNOWN if self.previous is ABSENT else self.previous
        return self.value if self.change_kind == "delete" else ABSENT

    @property
    def after(self) -> Any:
        """The record after the change, `ABSENT` where there is none."""
        return ABSENT if self.change_kind == "delete" else self.value


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """The part of a trigger that the decision depends on, for one kind of change."""

    change_kind: str
    enabled: bool
    source_collection: str
    predicate: Predicate | None = None

    @property
    def reads_previous(self) -> bool:
        """Whether the record before an update takes part."""
        return self.change_kind == "update" and self.predicate is not None and self.predicate.reads_previous


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The outcome; `reason` is `MATCHED` exactly where `matched`."""

    matched: bool
    reason: Reason


_DECISIONS = {reason: Decision(matched=reason is Reason.MATCHED, reason=reason) for reason in Reason}


def change_of(operation: Operation, previous: Any = ABSENT) -> Change:
    """Return what of a durable operation takes part. A delete carries the record it removed."""
    return Change(change_kind=operation.kind, collection=operation.collection, value=operation.value, previous=previous)


def decide(change: Change, terms: Terms) -> Decision:
    """Run the checks in their fixed order."""
    return _DECISIONS[_first_reason(change, terms)]


def _first_reason(change: Change, terms: Terms) -> Reason:
    if not terms.enabled:
        return Reason.TRIGGER_DISABLED
    if change.collection != terms.source_collection:
        return Reason.COLLECTION_MISMATCH
    if change.change_kind != terms.change_kind:
        return Reason.CHANGE_KIND_MISMATCH
    if terms.predicate is None:
        return Reason.MATCHED
    if change.value is ABSENT:
        return Reason.CHANGE_VALUE_ABSENT
    if terms.predicate.reads_previous:
        return _REASONS[terms.predicate.run(change.value, change.before, change.after)]
    return _REASONS[terms.predicate.run(change.value, ABSENT, ABSENT)]


_REASONS = {verdict: Reason(verdict.value) for verdict in Verdict}


def version_of(terms: Terms) -> int:
    """Return the contract version that can say these terms."""
    return CONTRACT_VERSION if terms.predicate is None or terms.predicate.is_equality else TREE_VERSION


def canonical_input(change: Change, terms: Terms) -> bytes:
    """Return the canonical bytes of an input."""
    return canonical_json.dumps(_document(change, terms))


def input_digest(change: Change, terms: Terms) -> str:
    """Return `sha256:` and the lower-case hex digest of the canonical bytes."""
    return "sha256:" + hashlib.sha256(canonical_input(change, terms)).hexdigest()


def _document(change: Change, terms: Terms) -> dict[str, Any]:
    change_part: dict[str, Any] = {"change_kind": change.change_kind, "collection": change.collection}
    if change.value is not ABSENT:
        change_part["value"] = change.value
    if terms.reads_previous and change.previous is not ABSENT:
        change_part["previous"] = change.previous
    trigger_part: dict[str, Any] = {
        "change_kind": terms.change_kind,
        "enabled": terms.enabled,
        "source_collection": terms.source_collection,
    }
    if terms.predicate is not None:
        trigger_part["predicate"] = terms.predicate.document
    return {"change": change_part, "contract": CONTRACT_ID, "trigger": trigger_part, "version": version_of(terms)}


def decide_wire(raw: bytes) -> bytes:
    """Decide an input in its wire form. Always answers in wire form; nothing raises."""
    try:
        change, terms = read_input(raw)
    except ContractError as error:
        answer: dict[str, Any] = {"error": {"code": error.code.value}, "version": CONTRACT_VERSION}
    else:
        decision = decide(change, terms)
        outcome = {"matched": decision.matched, "reason": decision.reason.value}
        answer = {"outcome": outcome, "version": version_of(terms)}
    return canonical_json.dumps({"contract": CONTRACT_ID, **answer})


def read_input(raw: bytes) -> tuple[Change, Terms]:
    """Read the wire form. Raises `ContractError`: for what cannot be read, then for contract, then for version."""
    document = _members(_parse(raw), "input", required={"change", "contract", "trigger", "version"})
    version = document["version"]
    if not isinstance(document["contract"], str) or not isinstance(version, int) or isinstance(version, bool):
        _invalid("contract is a text and version a whole number")
    if document["contract"] != CONTRACT_ID:
        raise ContractError(ErrorCode.CONTRACT_ID_MISMATCH, f"this runtime decides {CONTRACT_ID}")
    if version not in (CONTRACT_VERSION, TREE_VERSION):
        raise ContractError(ErrorCode.CONTRACT_VERSION_UNSUPPORTED, f"version {version} is not known here")
    change = _read_change(document["change"])
    terms = _read_terms(document["trigger"])
    if version != version_of(terms):
        _invalid(f"this predicate is of version {version_of(terms)}")
    if change.previous is not ABSENT and not (terms.reads_previous and change.change_kind == "update"):
        _invalid("previous is part of an update whose trigger's predicate reads it, and of nothing else")
    return change, terms


def _read_change(document: Any) -> Change:
    members = _members(document, "change", required={"change_kind", "collection"}, optional={"value", "previous"})
    return Change(
        change_kind=_kind(members["change_kind"]),
        collection=_text(members["collection"], "change.collection"),
        value=members.get("value", ABSENT),
        previous=members.get("previous", ABSENT),
    )


def _read_terms(document: Any) -> Terms:
    required = {"change_kind", "enabled", "source_collection"}
    members = _members(document, "trigger", required=required, optional={"predicate"})
    if not isinstance(members["enabled"], bool):
        _invalid("trigger.enabled is true or false")
    try:
        predicate = None if members.get("predicate") is None else parse(members["predicate"])
    except PredicateInvalid as error:
        raise ContractError(ErrorCode.CONTRACT_INPUT_INVALID, error.message) from error
    return Terms(
        change_kind=_kind(members["change_kind"]),
        enabled=members["enabled"],
        source_collection=_text(members["source_collection"], "trigger.source_collection"),
        predicate=predicate,
    )


def _members(document: Any, name: str, *, required: set[str], optional: set[str] | None = None) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        _invalid(f"{name} is an object")
    names = set(document)
    if missing := required - names:
        _invalid(f"{name} lacks {', '.join(sorted(missing))}")
    if unknown := names - required - (optional or set()):
        _invalid(f"{name} has unknown members {', '.join(sorted(unknown))}")
    return document


def _kind(value: Any) -> str:
    if value not in CHANGE_KINDS:
        _invalid(f"change_kind is one of {', '.join(CHANGE_KINDS)}")
    return str(value)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        _invalid(f"{name} is a text")
    return str(value)


def _invalid(message: str) -> NoReturn:
    raise ContractError(ErrorCode.CONTRACT_INPUT_INVALID, message)


def _parse(raw: bytes) -> Any:
    """Read JSON as every runtime of the contract does: integers beyond 64 bits and `-0` are floats, names unique."""
    try:
        document = json.loads(
            raw.decode("utf-8"),
            parse_int=_whole_number,
            parse_float=_float,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique_members,
        )
        canonical_json.dumps(document)  # text that is not Unicode has no canonical form
        return document
    except (ValueError, TypeError, RecursionError) as error:
        raise ContractError(ErrorCode.CONTRACT_INPUT_INVALID, "not JSON, or not JSON of this contract") from error


def _whole_number(text: str) -> int | float:
    if text == "-0" or len(text) > 20:
        return _float(text)
    number = int(text)
    return number if -(2**63) <= number < 2**64 else _float(text)


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number beyond the range of a float")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member name comes twice")
    return members
