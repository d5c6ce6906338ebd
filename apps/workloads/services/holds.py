"""Stopping all claims of a namespace, and letting them go on. Work that is claimed already is finished.

Who stops them says why: a claim of such a namespace is refused with that code and message.
"""

from apps.workloads import errors, limits, statements
from apps.workloads.models import Lane, NamespaceHold

_HOLDS, _LANES = NamespaceHold._meta.db_table, Lane._meta.db_table
NOT_HELD = f'AND NOT EXISTS (SELECT 1 FROM "{_HOLDS}" WHERE "{_HOLDS}"."namespace" = "{_LANES}"."namespace")'  # noqa: S608
"""For `statements.fetch(Lane, ...)`: the lanes of namespaces whose claims are not stopped."""


def hold(namespace: str, *, code: str, message: str, now_ms: int) -> None:
    """Stop the namespace's claims; what stopped them first stays the reason."""
    NamespaceHold.objects.get_or_create(
        namespace=namespace,
        defaults={"code": code, "message": message[: limits.MAX_HOLD_CHARS], "at_ms": now_ms},
    )


def release(namespace: str, *, code: str) -> None:
    """Let the namespace's claims go on, if it was for this reason that they were stopped."""
    NamespaceHold.objects.filter(namespace=namespace, code=code).delete()


def check(namespace: str) -> None:
    """Raise the refusal, with the hold's own code, while the namespace's claims are stopped."""
    for row in statements.fetch(NamespaceHold, namespace=namespace):
        raise errors.WorkloadError(row.code, row.message)
