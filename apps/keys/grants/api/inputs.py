"""How the bodies of the grant routes are read: types here, what they may be in the services."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from apps.http.errors import ApiError
from apps.keys.grants import form
from apps.keys.grants.errors import GrantInvalid
from apps.keys.grants.rules import Context

_GIVEN = ("id", "subject", "capabilities", "resources", "constraints", "expires_at", "expires_at_ms")
_SERVERS = {"contract_version": form.CONTRACT_VERSION, "status": "ACTIVE", "parent_grant": None}
"""What a whole grant, sent to be signed, may say only in this way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What a body says of a grant; None for what it leaves out."""

    grant_id: str | None
    subject: form.GrantSubject
    capabilities: frozenset[str] | None
    scopes: tuple[form.Resource, ...] | None
    constraints: form.Constraints | None
    expires_at: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question about a presented grant; `grant` may be anything at all."""

    grant: Any
    subject: form.GrantSubject | None
    application_id: str
    capability: str
    resource: str
    context: Context


def read_new(body: Any, *, namespace: str, now_ms: int) -> dict[str, Any]:
    """Return the arguments of `services.issue`. A whole grant may be sent; issuer and time of issue are replaced."""
    members = _members(
        body,
        (*_GIVEN, "application_id", "revision", "tenant_id", "issuer", "issued_at", *_SERVERS),
        ("application_id",),
    )
    for name, only in _SERVERS.items():
        if members.get(name, only) != only or isinstance(members.get(name), bool):
            raise GrantInvalid(f"a new grant has {name} {only}", field=name)
    if members.get("tenant_id", namespace) != namespace:
        raise GrantInvalid("the tenant is the namespace the request acts in", field="tenant_id")
    issued_at = members.get("issued_at", 0)
    if not _is_count(issued_at) or issued_at * 1000 > now_ms:
        raise GrantInvalid("a grant is not issued in the future; leave this out", field="issued_at")
    revision = members.get("revision", 1)
    if not _is_count(revision):
        raise GrantInvalid("send a whole number", field="revision")
    given = _given(members)
    if given.capabilities is None or given.scopes is None or given.expires_at is None:
        raise GrantInvalid("name capabilities, resources and expires_at")
    return {
        "application_id": form.read_application(members["application_id"]),
        "grant_id": given.grant_id,
        "subject": given.subject,
        "capabilities": given.capabilities,
        "scopes": given.scopes,
        "constraints": given.constraints,
        "expires_at": given.expires_at,
        "revision": revision,
    }


def read_child(body: Any) -> Given:
    """Return what a delegation's body says."""
    return _given(_members(body, _GIVEN))


def read_question(body: Any) -> Asked:
    """Return the question. Raises GrantInvalid for anything but the grant itself, which the decision judges."""
    names = ("grant", "subject", "application_id", "capability", "resource", "context")
    members = _members(body, names, ("grant", "application_id", "capability", "resource"))
    subject = members.get("subject")
    if not isinstance(members["resource"], str):
        raise GrantInvalid("send an address", field="resource")
    return Asked(
        grant=members["grant"],
        subject=None if subject is None else form.read_subject(subject, "subject"),
        application_id=form.read_application(members["application_id"]),
        capability=form.read_capability(members["capability"]),
        resource=members["resource"],
        context=read_context(members.get("context")),
    )


def read_context(value: Any) -> Context:
    """Return the circumstances that a question assumes. Raises GrantInvalid."""
    if value is None:
        return Context()
    if not isinstance(value, Mapping) or len(value) > len(fields(Context)):
        raise GrantInvalid("send an object", field="context")
    known = {field.name for field in fields(Context)}
    for name, item in value.items():
        if name not in known:
            raise GrantInvalid(f"a context has {', '.join(sorted(known))}", field="context")
        if not _fits(name, item):
            raise GrantInvalid("the value has another type", field=f"context.{name}")
    return Context(**value)


def read_reason(body: Any) -> str:
    """Return the `reason` of a revocation, an empty text for none."""
    reason = _members(body, ("reason",), ()).get("reason") or ""
    if not isinstance(reason, str):
        raise ApiError("VALIDATION_ERROR", "reason: send a string.", details={"field": "reason"})
    return reason


def _given(members: Mapping[str, Any]) -> Given:
    if "subject" not in members:
        raise GrantInvalid("the member subject is missing", field="subject")
    capabilities, scopes = members.get("capabilities"), members.get("resources")
    constraints, grant_id = members.get("constraints"), members.get("id")
    return Given(
        grant_id=None if grant_id is None else form.read_id(grant_id, "id"),
        subject=form.read_subject(members["subject"], "subject"),
        capabilities=None if capabilities is None else form.read_capabilities(capabilities),
        scopes=None if scopes is None else form.read_resources(scopes),
        constraints=None if constraints is None else form.read_constraints(constraints, partial=True),
        expires_at=_end(members),
    )


def _end(members: Mapping[str, Any]) -> int | None:
    seconds, milliseconds = members.get("expires_at"), members.get("expires_at_ms")
    if seconds is not None and milliseconds is not None:
        raise GrantInvalid("send expires_at or expires_at_ms, not both", field="expires_at")
    end = seconds if milliseconds is None else milliseconds
    if end is None:
        return None
    if not _is_count(end):
        raise GrantInvalid("send a whole number", field="expires_at")
    return int(end) if milliseconds is None else int(end) // 1000


def _members(body: Any, known: tuple[str, ...], needed: tuple[str, ...] = ("subject",)) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise ApiError("VALIDATION_ERROR", "body: send an object.", details={"field": ""})
    for name in body:
        if name not in known:
            raise ApiError("VALIDATION_ERROR", f"{name}: there is no such member.", details={"field": name})
    for name in needed:
        if name not in body:
            raise GrantInvalid(f"the member {name} is missing", field=name)
    return body


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _fits(name: str, value: Any) -> bool:
    if name.endswith("attributes"):
        return isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values())
    if value is None:
        return True
    if name == "connection_enabled":
        return isinstance(value, bool)
    return _is_count(value) if name == "schema_version" else isinstance(value, str)
