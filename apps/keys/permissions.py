"""DRF permission by scope, and which namespace a request acts in."""

import re
from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.http.errors import ApiError
from apps.keys.models import NAMESPACE_PATTERN, Namespace
from apps.keys.principal import EVERY_NAMESPACE, Principal

_seen_namespaces: set[str] = set()


class ScopePermission(BasePermission):
    """For DRF views that are no `KeyedView`: asks for the scope that the view's `scopes` table names for the method.

    A view without a table, or a method without an entry, lets nobody in.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether the caller holds the scope; raises ApiError FORBIDDEN with `reason` where it does not."""
        scopes: dict[str, str | None] = getattr(view, "scopes", {})
        method = "GET" if request.method == "HEAD" else str(request.method)
        principal: Any = request.user
        if method not in scopes or not isinstance(principal, Principal):
            return False
        scope = scopes[method]
        if scope is not None:
            require_scope(principal, scope)
        return True


def require_scope(principal: Principal, scope: str) -> None:
    """Raise ApiError FORBIDDEN (MISSING_SCOPE) unless the principal holds the scope."""
    if not principal.has(scope):
        raise ApiError("FORBIDDEN", f"The key lacks the scope {scope}.", reason="MISSING_SCOPE", required_scope=scope)


def require_collection(principal: Principal, collection: str) -> None:
    """Raise ApiError FORBIDDEN (COLLECTION_DENIED) unless the principal may touch the collection."""
    if not principal.may_touch(collection):
        raise ApiError("FORBIDDEN", "The key may not touch this collection.", reason="COLLECTION_DENIED")


def require_worker(principal: Principal, worker_id: str) -> None:
    """Raise ApiError FORBIDDEN (WORKER_MISMATCH) unless the principal is exactly that worker."""
    if not principal.may_act_as_worker(worker_id):
        raise ApiError("FORBIDDEN", "Only the key bound to this worker may act as it.", reason="WORKER_MISMATCH")


def namespace_of(principal: Principal, asked: str | None) -> str:
    """Return the namespace the request acts in: the one asked for, or a key's only one.

    Raises ApiError NAMESPACE_REQUIRED, or FORBIDDEN (NAMESPACE_DENIED) alike for a namespace that is not the key's
    and for one that does not exist.
    """
    if not asked:
        if len(principal.namespaces) == 1 and EVERY_NAMESPACE not in principal.namespaces:
            return next(iter(principal.namespaces))
        raise ApiError(
            "NAMESPACE_REQUIRED", "The key opens several namespaces; name one in the header FeltDB-Namespace."
        )
    if asked in principal.namespaces or (EVERY_NAMESPACE in principal.namespaces and namespace_exists(asked)):
        return asked
    raise ApiError("FORBIDDEN", "There is no such namespace for this key.", reason="NAMESPACE_DENIED")


def namespace_exists(name: str) -> bool:
    """Tell whether the namespace is there. Namespaces are never removed, so a yes is remembered."""
    if name in _seen_namespaces:
        return True
    if not re.fullmatch(NAMESPACE_PATTERN, name) or not Namespace.objects.filter(pk=name).exists():
        return False
    _seen_namespaces.add(name)
    return True


def forget_all() -> None:
    """Drop what this process remembers."""
    _seen_namespaces.clear()
