"""When a grant holds and when one is narrower than another. Pure: no database, no clock, no signature."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apps.keys.grants.errors import DelegationInvalid, GrantExpired, GrantInvalid, GrantRevoked, GrantScopeDenied
from apps.keys.grants.form import Constraints, Grant, GrantSubject
from apps.keys.grants.limits import MAX_CLOCK_SKEW_MS
from apps.keys.grants.resources import covers, within


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The circumstances of a request, as the server knows them; never taken from who asks.

    A constraint on a fact that is None or absent here does not hold. `subject_attributes` are facts about the
    subject beside its kind.
    """

    environment: str | None = None
    workload_id: str | None = None
    worker_class: str | None = None
    network: str | None = None
    connection_enabled: bool | None = None
    schema_version: int | None = None
    subject_attributes: Mapping[str, str] = field(default_factory=dict)
    resource_attributes: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)


def check_begun(grant: Grant, now_ms: int) -> None:
    """Raise where the grant comes from further in the future than two hosts' clocks may differ."""
    if grant.issued_at * 1000 > now_ms + MAX_CLOCK_SKEW_MS:
        raise GrantInvalid("the grant comes from the future", field="issued_at")


def check_time_and_status(grant: Grant, now_ms: int) -> None:
    """Raise unless the grant's own words say that it holds at `now_ms`. The end is exclusive."""
    if grant.issued_at >= grant.expires_at:
        raise GrantInvalid("the grant ends before it begins", field="expires_at")
    if grant.status == "EXPIRED" or grant.expires_at * 1000 <= now_ms:
        raise GrantExpired("the grant has expired")
    if grant.status == "REVOKED":
        raise GrantRevoked("the grant is revoked")
    if grant.status != "ACTIVE":
        raise GrantInvalid(f"the grant is {grant.status}", field="status")


def check_authority(grant: Grant, capability: str, uri: str) -> None:
    """Raise GrantScopeDenied unless the grant has the capability, literally, and a scope that covers the address."""
    if capability not in grant.capabilities:
        raise GrantScopeDenied(f"the grant does not have the capability {capability}")
    if not any(covers(resource, uri) for resource in grant.resources):
        raise GrantScopeDenied("no resource of the grant covers this one")


def check_constraints(constraints: Constraints, subject: GrantSubject, context: Context) -> None:
    """Raise GrantScopeDenied for the first constraint that the circumstances do not meet."""
    unmet = first_unmet(constraints, subject, context)
    if unmet is not None:
        raise GrantScopeDenied(f"the grant's constraint {unmet} is not met here")


def first_unmet(constraints: Constraints, subject: GrantSubject, context: Context) -> str | None:
    """Return the name of the first constraint that is not met, in the order of the form, or None."""
    if constraints.environments and context.environment not in constraints.environments:
        return "environments"
    for name in ("worker_class", "network", "workload_id", "connection_enabled"):
        wanted = getattr(constraints, name)
        if wanted is not None and getattr(context, name) != wanted:
            return name
    minimum = constraints.minimum_schema_version
    if minimum is not None and (context.schema_version is None or context.schema_version < minimum):
        return "minimum_schema_version"
    pairs = (
        ("subject_attributes", constraints.subject_attributes, {**context.subject_attributes, "type": subject.kind}),
        ("resource_attributes", constraints.resource_attributes, context.resource_attributes),
        ("context_attributes", constraints.context_attributes, context.attributes),
    )
    for name, wanted_attributes, facts in pairs:
        for key, value in wanted_attributes.items():
            if facts.get(key) != value:
                return f"{name}.{key}"
    return None


def check_narrower(child: Grant, parent: Grant) -> None:
    """Raise DelegationInvalid unless whatever the child allows, the parent allows its own subject."""
    if (child.tenant_id, child.application_id) != (parent.tenant_id, parent.application_id):
        raise DelegationInvalid("a delegated grant stays in its parent's tenant and application")
    if child.issuer != parent.subject:
        raise DelegationInvalid("only a grant's subject delegates it", field="issuer")
    if child.issued_at < parent.issued_at or child.expires_at > parent.expires_at:
        raise DelegationInvalid("a delegated grant lives within its parent's time", field="expires_at")
    beyond = sorted(child.capabilities - parent.capabilities)
    if beyond:
        raise DelegationInvalid(f"the parent does not have the capability {beyond[0]}", field="capabilities")
    for resource in child.resources:
        if not any(within(resource, outer) for outer in parent.resources):
            raise DelegationInvalid(f"the parent does not cover {resource.uri}", field="resources")
    looser = first_looser(child.constraints, parent.constraints)
    if looser is not None:
        raise DelegationInvalid(f"the parent's constraint {looser} must stay at least as tight", field="constraints")


def first_looser(child: Constraints, parent: Constraints) -> str | None:
    """Return the name of the first constraint in which the child is looser than the parent, or None."""
    if parent.environments and not (child.environments and child.environments <= parent.environments):
        return "environments"
    for name in ("worker_class", "network", "workload_id", "connection_enabled"):
        wanted = getattr(parent, name)
        if wanted is not None and getattr(child, name) != wanted:
            return name
    minimum = parent.minimum_schema_version
    if minimum is not None and (child.minimum_schema_version is None or child.minimum_schema_version < minimum):
        return "minimum_schema_version"
    for name in ("subject_attributes", "resource_attributes", "context_attributes"):
        ours = getattr(child, name)
        for key, value in getattr(parent, name).items():
            if ours.get(key) != value:
                return f"{name}.{key}"
    return None
