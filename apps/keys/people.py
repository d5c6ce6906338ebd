"""What a person holds: the console's permissions in the words of scopes, so that every door gives them the same.

Not here: which roles there are (`apps/operations/services/roles.py`), and sessions (`sessions/`).
"""

from apps.keys.models import Operator
from apps.keys.principal import EVERY_NAMESPACE, Principal
from apps.keys.scopes import EVERYTHING

PERMISSION_SCOPES: dict[str, tuple[str, ...]] = {
    "keys.view_namespace": ("state:read", "events:read", "capabilities:read", "operator:read"),
    "keys.view_auditevent": ("audit:read",),
    "triggers.view_trigger": ("triggers:read",),
    "triggers.change_trigger": ("triggers:write",),
    "workloads.view_workload": ("workload:read",),
    "workloads.change_workload": ("workload:create", "workload:cancel", "workload:retry", "workload:approve"),
}
"""What each permission of the console lets a person do over HTTP. A permission that is not here gives nothing there."""


def scopes_of(person: Operator) -> frozenset[str]:
    """Return the scopes a person holds now; none for one who was stopped."""
    if not person.is_active:
        return frozenset()
    if person.is_superuser:
        return frozenset({EVERYTHING})
    given = person.get_all_permissions()
    return frozenset(scope for name, scopes in PERMISSION_SCOPES.items() if name in given for scope in scopes)


def principal_of(person: Operator) -> Principal:
    """Return the principal a person acts as at the console, in every namespace."""
    return Principal(
        kind="human",
        key_id="",
        identity=person.get_username(),
        person_id=person.pk,
        scopes=scopes_of(person),
        namespaces=frozenset({EVERY_NAMESPACE}),
    )
