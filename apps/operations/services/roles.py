"""What people may do in the console: three roles, each a Django group with exactly the permissions of this table.

An administrator is a superuser: they alone issue keys and make operators.
"""

from enum import StrEnum

from django.contrib.auth.models import Group, Permission
from django.db import transaction

from apps.keys.models import Operator


class Role(StrEnum):
    """From least to most."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


MEANING = {
    Role.VIEWER: "sees everything, changes nothing",
    Role.OPERATOR: "also retries and cancels work, defines and stops triggers",
    Role.ADMINISTRATOR: "does everything; alone issues and revokes keys and makes operators",
}
_SEES = (
    "keys.view_apikey",
    "keys.view_auditevent",
    "keys.view_humansession",
    "keys.view_issuedgrant",
    "keys.view_namespace",
    "triggers.view_trigger",
    "triggers.view_triggerquarantine",
    "workloads.view_bulkorder",
    "workloads.view_refusedword",
    "workloads.view_registeredworker",
    "workloads.view_schedule",
    "workloads.view_workload",
)
PERMISSIONS = {
    Role.VIEWER: _SEES,
    Role.OPERATOR: (*_SEES, "triggers.add_trigger", "triggers.change_trigger", "workloads.change_workload"),
}


def ensure_roles() -> None:
    """Make the groups where they are missing and give each exactly its permissions. The schema is up to date."""
    with transaction.atomic():
        for role, names in PERMISSIONS.items():
            group, _ = Group.objects.get_or_create(name=role.value)
            wanted = []
            for name in names:
                app, codename = name.split(".")
                wanted.append(Permission.objects.get(content_type__app_label=app, codename=codename))
            group.permissions.set(wanted)


def role_of(person: Operator) -> Role | None:
    """Return the highest role a person has, None where they may not use the console."""
    if person.is_superuser:
        return Role.ADMINISTRATOR
    names = {group.name for group in person.groups.all()}
    if not person.is_staff:
        return None
    return next((role for role in (Role.OPERATOR, Role.VIEWER) if role in names), None)
