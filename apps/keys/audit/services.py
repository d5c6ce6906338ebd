"""What is added to the audit trail. The rule: whoever changes something calls `record` in the same transaction."""

import time
from collections.abc import Iterable
from typing import Any

from apps.http import canonical_json, request_id
from apps.keys.audit import limits
from apps.keys.audit.masking import safe
from apps.keys.audit.models import AuditEvent
from apps.keys.principal import EVERY_NAMESPACE, Principal


def record(
    principal: Principal,
    action: str,
    *,
    target: str,
    namespace: str = "",
    outcome: str = "done",
    code: str = "",
    reason: str = "",
    before: Any = None,
    after: Any = None,
    at_ms: int | None = None,
) -> AuditEvent:
    """Add one event, in the caller's transaction: it is there exactly when what it tells of is.

    `before` and `after` are JSON values whose digests are kept, never they themselves; None where there is none.
    Texts are masked, made printable and cut. `namespace` is empty for what concerns the whole instance.
    """
    return AuditEvent.objects.create(
        at_ms=_now_ms() if at_ms is None else at_ms,
        namespace="" if namespace == EVERY_NAMESPACE else namespace,
        **_who(principal),
        action=safe(action, limits.MAX_ACTION_CHARS),
        target=safe(target, limits.MAX_TARGET_CHARS),
        outcome=outcome,
        code=code,
        reason=safe(reason, limits.MAX_REASON_CHARS),
        request_id=safe(request_id.current(), limits.MAX_REQUEST_ID_CHARS),
        before_digest=digest(before),
        after_digest=digest(after),
    )


def record_in(namespaces: Iterable[str], principal: Principal, action: str, **members: Any) -> None:
    """Add the event once for each namespace it concerns, so that each one's readers see it."""
    for namespace in namespaces:
        record(principal, action, namespace=namespace, **members)


def digest(value: Any) -> str:
    """Return the hex SHA-256 of the value's canonical JSON, or an empty text for None."""
    return "" if value is None else canonical_json.sha256_hex(value)


def _who(principal: Principal) -> dict[str, str]:
    return {
        "principal_kind": principal.kind,
        "subject": safe(principal.label, limits.MAX_SUBJECT_CHARS),
        "key_id": principal.key_id,
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
