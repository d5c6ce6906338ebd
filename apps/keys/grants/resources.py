r"""Addresses of resources, and what a grant's scope over them covers. Pure.

    flow://{application}                    the application itself
    flow://{application}/{segment}/...      something in it: workloads/{id}, state/{collection}, workers/{id}, ...

There is one spelling of each address, so that no decoder sees another resource than the matcher did:

    a segment is never empty, `.` or `..`, and there is no `?`, no `#` and no trailing slash
    A-Z a-z 0-9 - . _ ~ : @ ! $ & ' ( ) + , ; = stand for themselves and are never percent-encoded
    every other printable character is percent-encoded UTF-8 in upper-case hex
    slash, backslash, percent sign, asterisk, question mark, hash and control characters occur in no form
"""

import re
from urllib.parse import quote, unquote_to_bytes

from apps.keys.grants import limits
from apps.keys.grants.errors import GrantInvalid
from apps.keys.grants.form import Resource

SCHEME = "flow://"
BELOW = ("APPLICATION", "RESOURCE_PREFIX")
"""The kinds that cover what lies below their address; every other kind covers that one address only."""

_RAW = "-._~:@!$&'()+,;="
_SEGMENT = re.compile(r"(?:[A-Za-z0-9\-._~:@!$&'()+,;=]|%[0-9A-F]{2})+")
_NEVER = re.compile(rb"[\x00-\x1f/\\%*?#\x7f]")


def address(application_id: str, *segments: str) -> str:
    """Return the address of something in the application. Raises GrantInvalid for a segment that cannot be named."""
    uri = SCHEME + "/".join(quote(part, safe=_RAW) for part in (application_id, *segments))
    check_address(uri, application_id)
    return uri


def check_address(uri: str, application_id: str) -> None:
    """Raise GrantInvalid unless `uri` is the one spelling of an address in that application."""
    if not uri.startswith(SCHEME) or len(uri) > limits.MAX_URI_CHARS:
        raise GrantInvalid(
            f"an address begins with {SCHEME} and has at most {limits.MAX_URI_CHARS} characters", field="resource"
        )
    segments = uri[len(SCHEME) :].split("/")
    for segment in segments:
        _check_segment(segment)
    if segments[0] != quote(application_id, safe=_RAW):
        raise GrantInvalid("the address is in another application", field="resource")


def _check_segment(segment: str) -> None:
    if segment in (".", "..") or not _SEGMENT.fullmatch(segment):
        raise GrantInvalid("a segment of the address is empty, relative or not percent-encoded", field="resource")
    raw = unquote_to_bytes(segment)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise GrantInvalid("a segment of the address is not UTF-8", field="resource") from None
    if _NEVER.search(raw) or not text.isprintable() or quote(text, safe=_RAW) != segment:
        raise GrantInvalid("a segment of the address has another spelling, or hides a separator", field="resource")


def check_scope(resource: Resource, application_id: str) -> None:
    """Raise GrantInvalid unless the resource is a scope that can cover something in that application.

    A trailing `/*` is allowed on `RESOURCE_PREFIX` alone, where it means the same as without.
    """
    check_address(_base(resource), application_id)
    if resource.kind == "APPLICATION" and resource.uri != address(application_id):
        raise GrantInvalid("an APPLICATION's address is the application's own", field="resources")


def covers(scope: Resource, uri: str) -> bool:
    """Tell whether the scope covers the (checked) address."""
    base = _base(scope)
    return uri == base or (scope.kind in BELOW and uri.startswith(base + "/"))


def within(inner: Resource, outer: Resource) -> bool:
    """Tell whether everything the inner scope covers is covered by the outer one."""
    if inner.kind in BELOW and outer.kind not in BELOW:
        return False
    return covers(outer, _base(inner))


def _base(resource: Resource) -> str:
    return resource.uri.removesuffix("/*") if resource.kind == "RESOURCE_PREFIX" else resource.uri
