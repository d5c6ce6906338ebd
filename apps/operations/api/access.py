"""Who may see the operator's side: a key with `operator:read`, or a caller on this very host."""

import ipaddress

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest

from apps.http.errors import ApiError
from apps.keys.authentication import KeyAuthentication
from apps.keys.permissions import require_scope
from apps.operations.statements import at_most

SCOPE = "operator:read"
ASKED_S = 1.0
_FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")


def on_this_host(request: HttpRequest) -> bool:
    """Tell whether the server listens on the loopback address alone and the caller is on this host itself.

    A proxy in front is on this host too and speaks for anybody: HTTPS=true says that there is one, and so do the
    headers that proxies add.
    """
    if settings.HTTPS or any(name in request.META for name in _FORWARDED):
        return False
    return _loopback(settings.HOST) and _loopback(request.META.get("REMOTE_ADDR", ""))


def require_operator(request: HttpRequest) -> None:
    """Let the operator's side through. Raises ApiError: AUTHENTICATION_REQUIRED, FORBIDDEN."""
    if "HTTP_AUTHORIZATION" not in request.META and on_this_host(request):
        return
    principal, _ = KeyAuthentication().authenticate(request)  # type: ignore[arg-type] # reads META alone
    require_scope(principal, SCOPE)


def is_operator(request: HttpRequest) -> bool:
    """Tell whether `require_operator` would let the caller through; not, where the database does not say so soon."""
    try:
        with at_most(ASKED_S):
            require_operator(request)
    except (ApiError, DatabaseError, InterfaceError):
        return False
    return True


def _loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False
