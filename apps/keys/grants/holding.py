"""What a principal holds, in the words of a grant. Pure. The rule: nobody gives what they do not hold."""

from collections.abc import Iterable

from apps.keys.grants.errors import GrantInvalid, GrantScopeDenied
from apps.keys.grants.form import GrantSubject, Resource
from apps.keys.grants.resources import address, within
from apps.keys.principal import Principal
from apps.keys.scopes import EVERYTHING, SCOPES

AREAS = ("workloads", "workers", "worker-pools", "triggers")
"""What a key that is limited to collections still reaches in an application, beside those collections."""


def grant_subject(principal: Principal) -> GrantSubject:
    """Return the subject that grants know the principal as; nothing but the authenticated principal takes part."""
    return GrantSubject(principal.subject.kind.lower(), principal.subject.id)


def capabilities_of(principal: Principal) -> frozenset[str]:
    """Return every capability the principal holds by name; `*` stands for all the scopes there are."""
    named = SCOPES if principal.has(EVERYTHING) else principal.scopes
    return frozenset(named) - {EVERYTHING}


def resources_of(principal: Principal, application_id: str) -> tuple[Resource, ...]:
    """Return the resources of the application that the principal reaches."""
    if principal.collections is None:
        return (Resource("APPLICATION", address(application_id)),)
    reached = [Resource("RESOURCE_PREFIX", address(application_id, area)) for area in AREAS]
    for collection in sorted(principal.collections):
        try:
            reached.append(Resource("RESOURCE_PREFIX", address(application_id, "state", collection)))
        except GrantInvalid:
            continue  # a name no address can spell (`..`): the grant is the narrower for it
    return tuple(reached)


def check_holds(
    principal: Principal,
    *,
    tenant_id: str,
    application_id: str,
    capabilities: Iterable[str],
    resources: Iterable[Resource],
) -> None:
    """Raise GrantScopeDenied unless the principal itself holds all of this."""
    if not principal.may_enter(tenant_id):
        raise GrantScopeDenied("the namespace is not held by who gives")
    for capability in sorted(capabilities):
        if not principal.has(capability):
            raise GrantScopeDenied(f"the capability {capability} is not held by who gives", field="capabilities")
    reached = resources_of(principal, application_id)
    for resource in resources:
        if not any(within(resource, outer) for outer in reached):
            raise GrantScopeDenied(f"{resource.uri} is not reached by who gives", field="resources")
