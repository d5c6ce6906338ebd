"""What a request for work must be, before anything is stored. Pure. The order of checks is the reference's."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from apps.http import strict_json
from apps.workloads import errors, limits
from apps.workloads.commands import CreateWorkload, RetryPolicy, Timeouts
from apps.workloads.secret_patterns import find_secret, text_reason
from apps.workloads.states import APPROVER_KINDS, REQUIRABLE, WhenUnreachable

SUBJECT_KINDS = ("human", "service", "workload", "agent", "connection", "worker")


def check(command: CreateWorkload) -> tuple[bytes, Any]:
    """Check a whole request and return its input as compact JSON, and the value that this says.

    Raises WORKLOAD_SECRET_REJECTED, WORKLOAD_INVALID (with the pointer of the member) or WORKLOAD_UNAUTHORIZED.
    """
    raw, given = kept_json(command.input, "/input", limits.MAX_INPUT_BYTES)
    name(command.idempotency_key, "/idempotency_key", limits.MAX_TEXT_CHARS)
    for member in ("definition_id", "application_id", "environment", "definition_revision"):
        name(getattr(command, member), f"/{member}", limits.MAX_NAME_CHARS)
    name(command.trigger, "/trigger", limits.MAX_TEXT_CHARS)
    if len(command.session_id) > limits.MAX_TEXT_CHARS:
        raise errors.invalid(f"at most {limits.MAX_TEXT_CHARS} characters", pointer="/session_id")
    names(command.capability_snapshot, "/capability_snapshot", limits.MAX_CAPABILITIES)
    names(command.connection_scopes, "/connection_scopes", limits.MAX_CAPABILITIES)
    if not limits.MIN_PRIORITY <= command.priority <= limits.MAX_PRIORITY:
        raise errors.invalid("a priority is a signed 32-bit integer", pointer="/priority")
    _subject(command)
    _retry_policy(command.retry_policy)
    _timeouts(command.timeouts)
    _approval(command)
    _dependencies(command)
    if command.not_before_at_ms is not None and not 0 <= command.not_before_at_ms < 2**53:
        raise errors.invalid("an instant is milliseconds since 1970", pointer="/not_before_at_ms")
    _binding(command)
    return raw, given


def kept_json(value: Any, pointer: str, max_bytes: int) -> tuple[bytes, Any]:
    """Return what is kept of a value that a caller or a program gave: compact JSON, and the value that it says.

    Raises WORKLOAD_INVALID for what JSON cannot say, WORKLOAD_SECRET_REJECTED, and WORKLOAD_INVALID beyond `max_bytes`.
    What is judged is what is kept: Python has values that are written as JSON without being it.
    """
    raw = _said(value, pointer)
    kept = orjson.loads(raw)
    finding = find_secret(kept, pointer)
    if finding is not None:
        raise errors.secret_rejected(finding.pointer, finding.reason)
    return _bounded(raw, pointer, max_bytes), kept


def refuse_secret_text(text: str, pointer: str) -> None:
    """Raise WORKLOAD_SECRET_REJECTED where the text holds a credential."""
    reason = text_reason(text)
    if reason is not None:
        raise errors.secret_rejected(pointer, reason)


def bounded_json(value: Any, pointer: str, max_bytes: int) -> bytes:
    """Return compact JSON. Raises WORKLOAD_INVALID beyond `max_bytes` or for what JSON cannot say."""
    return _bounded(_said(value, pointer), pointer, max_bytes)


def _said(value: Any, pointer: str) -> bytes:
    try:
        return strict_json.exact(value)
    except (TypeError, ValueError) as error:
        raise errors.invalid(f"not a JSON value: {error}", pointer=pointer) from error


def _bounded(raw: bytes, pointer: str, max_bytes: int) -> bytes:
    if len(raw) > max_bytes:
        raise errors.invalid(f"{len(raw)} bytes of JSON; at most {max_bytes} are kept", pointer=pointer)
    return raw


def name(value: str, pointer: str, max_chars: int) -> None:
    """Raise WORKLOAD_INVALID unless the text is a name: not blank, not too long, without NUL."""
    if not value.strip() or len(value) > max_chars or "\0" in value:
        raise errors.invalid(f"must be text of 1 to {max_chars} characters, not blank", pointer=pointer)


def names(values: Iterable[str], pointer: str, max_count: int) -> None:
    """Raise WORKLOAD_INVALID unless all are names and not too many."""
    values = list(values)
    if len(values) > max_count:
        raise errors.invalid(f"at most {max_count} names", pointer=pointer)
    for value in values:
        name(value, pointer, limits.MAX_NAME_CHARS)


def lease(lease_ms: int, pointer: str = "/lease_ms") -> None:
    """Raise WORKLOAD_INVALID unless the lease is within its bounds."""
    if not limits.MIN_LEASE_MS <= lease_ms <= limits.MAX_LEASE_MS:
        raise errors.invalid(f"a lease is {limits.MIN_LEASE_MS} to {limits.MAX_LEASE_MS} milliseconds", pointer=pointer)


def _subject(command: CreateWorkload) -> None:
    if command.requested_by.kind not in SUBJECT_KINDS:
        raise errors.invalid(f"must be one of {', '.join(SUBJECT_KINDS)}", pointer="/requested_by/kind")
    name(command.requested_by.id, "/requested_by/id", limits.MAX_NAME_CHARS)


def _retry_policy(policy: RetryPolicy) -> None:
    if not 1 <= policy.max_attempts <= limits.MAX_ATTEMPTS:
        raise errors.invalid(f"must be 1 to {limits.MAX_ATTEMPTS}", pointer="/retry_policy/max_attempts")
    if policy.backoff not in ("exponential", "fixed"):
        raise errors.invalid("must be exponential or fixed", pointer="/retry_policy/backoff")
    for member in ("initial_delay_ms", "max_delay_ms"):
        if not 0 <= getattr(policy, member) <= limits.MAX_DELAY_MS:
            raise errors.invalid(f"must be 0 to {limits.MAX_DELAY_MS}", pointer=f"/retry_policy/{member}")
    names(policy.retry_on, "/retry_policy/retry_on", limits.MAX_CAPABILITIES)


def _timeouts(timeouts: Timeouts) -> None:
    for member, value in timeouts.as_json().items():
        if not 1 <= value <= limits.MAX_DEADLINE_MS:
            raise errors.invalid(f"must be 1 to {limits.MAX_DEADLINE_MS}", pointer=f"/timeouts/{member}")


def _approval(command: CreateWorkload) -> None:
    policy = command.approval
    if policy is None:
        if command.timeouts.approval_ms is not None:
            raise errors.invalid("needs an approval policy", pointer="/timeouts/approval_ms")
        return
    if not policy.approver_kinds or not policy.approver_kinds <= set(APPROVER_KINDS):
        raise errors.invalid(f"one or more of {', '.join(APPROVER_KINDS)}", pointer="/approval/approver_kinds")
    if policy.approvers is None:
        return
    if not 1 <= len(policy.approvers) <= limits.MAX_APPROVERS:
        raise errors.invalid(f"1 to {limits.MAX_APPROVERS} approvers", pointer="/approval/approvers")
    for approver in policy.approvers:
        if approver.kind not in policy.approver_kinds:
            raise errors.invalid("every approver is of an allowed kind", pointer="/approval/approvers")
        name(approver.id, "/approval/approvers", limits.MAX_NAME_CHARS)


def _dependencies(command: CreateWorkload) -> None:
    if len(command.dependencies) > limits.MAX_DEPENDENCIES:
        raise errors.invalid(f"at most {limits.MAX_DEPENDENCIES} dependencies", pointer="/dependencies")
    if len({need.workload_id for need in command.dependencies}) != len(command.dependencies):
        raise errors.invalid("names the same workload twice", pointer="/dependencies")
    for index, need in enumerate(command.dependencies):
        if need.required_state not in REQUIRABLE:
            raise errors.invalid(
                f"must be one of {', '.join(REQUIRABLE)}", pointer=f"/dependencies/{index}/required_state"
            )
    if command.when_unreachable not in list(WhenUnreachable):
        raise errors.invalid(f"must be one of {', '.join(WhenUnreachable)}", pointer="/when_unreachable")


def _binding(command: CreateWorkload) -> None:
    """A grant travels only with the request of its own subject, tenant and application."""
    snapshot = command.authorization_snapshot
    if snapshot is None:
        return
    bounded_json(snapshot, "/authorization_snapshot", limits.MAX_SNAPSHOT_BYTES)
    grant = snapshot.get("grant", snapshot)
    if not isinstance(grant, Mapping):
        raise errors.unauthorized("the authorization snapshot holds no grant")
    subject = {"kind": command.requested_by.kind, "id": command.requested_by.id}
    if grant.get("subject") != subject:
        raise errors.unauthorized("the authorization snapshot's subject is not who asks for the work")
    if (grant.get("tenant_id"), grant.get("application_id")) != (command.namespace, command.application_id):
        raise errors.unauthorized("the authorization snapshot is for another tenant or application")
