"""What can happen to the people who use the console. No door makes, changes or stops an account but through these.

Each is audited in its transaction. There is always an administrator who can sign in: the last one can be neither
stopped nor given another role.
"""

from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from apps.keys import trust
from apps.keys.audit.services import record
from apps.keys.models import Operator
from apps.keys.principal import Principal
from apps.operations.services.roles import Role, ensure_roles, role_of

MAX_NAME_CHARS = 150
"""As in Django's own column."""


class OperatorRefused(Exception):
    """A request about operators that cannot be carried out; `field` names what was wrong, empty for the whole."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def create_operator(*, name: str, password: str, role: Role, by: Principal) -> Operator:
    """Make an account. Raises OperatorRefused for a taken or malformed name or a weak password."""
    name = name.strip()
    _check_name(name)
    person = Operator(username=name)
    _check_password(password, person)
    person.set_password(password)
    try:
        with transaction.atomic():
            person.save(force_insert=True)
            _give(person, role)
            record(by, "operator.create", target=name, after={"role": role.value})
    except IntegrityError as error:
        raise OperatorRefused(f"There is somebody named {name} already; choose another name.", field="name") from error
    return person


def set_role(person_id: int, role: Role, *, by: Principal) -> Operator:
    """Give a person another role, from their next request on. Raises OperatorRefused for the last administrator."""
    with trust.shrinking():
        person = _locked(person_id)
        if role != Role.ADMINISTRATOR:
            _keep_an_administrator(person)
        before = role_of(person)
        _give(person, role)
        if before != role:
            record(by, "operator.role", target=person.username, before={"role": before}, after={"role": role.value})
    return person


def set_active(person_id: int, active: bool, *, by: Principal) -> Operator:
    """Let a person sign in, or stop them at once, signed in or not. Raises OperatorRefused as `set_role`."""
    with trust.shrinking():
        person = _locked(person_id)
        if not active:
            _keep_an_administrator(person)
        changed, person.is_active = person.is_active != active, active
        person.save(update_fields=["is_active"])
        if changed:
            record(by, "operator.start" if active else "operator.stop", target=person.username)
    return person


def set_password(person_id: int, password: str, *, by: Principal) -> Operator:
    """Give a person a new password; every session of theirs ends. Raises OperatorRefused for a weak one."""
    person = Operator.objects.get(pk=person_id)
    _check_password(password, person)
    person.set_password(password)
    with trust.shrinking():
        person.save(update_fields=["password"])
        record(by, "operator.password", target=person.username)
    return person


def _give(person: Operator, role: Role) -> None:
    ensure_roles()
    person.is_staff = True
    person.is_superuser = role == Role.ADMINISTRATOR
    person.save(update_fields=["is_staff", "is_superuser"])
    person.groups.set(Group.objects.filter(name=role.value))


def _locked(person_id: int) -> Operator:
    """Return the person; all administrators are locked with them, so that two cannot stop each other at once."""
    list(Operator.objects.select_for_update().filter(is_superuser=True).order_by("pk").values_list("pk"))
    return Operator.objects.select_for_update().get(pk=person_id)


def _keep_an_administrator(person: Operator) -> None:
    others = Operator.objects.filter(is_superuser=True, is_active=True).exclude(pk=person.pk)
    if person.is_superuser and person.is_active and not others.exists():
        raise OperatorRefused("This is the last administrator; make another one first.")


def _check_name(name: str) -> None:
    try:
        UnicodeUsernameValidator()(name)
    except ValidationError as error:
        raise OperatorRefused("A name has letters, digits and @ . + - _ only.", field="name") from error
    if len(name) > MAX_NAME_CHARS:
        raise OperatorRefused(f"A name has at most {MAX_NAME_CHARS} characters.", field="name")


def _check_password(password: str, person: Operator) -> None:
    try:
        validate_password(password, person)
    except ValidationError as error:
        raise OperatorRefused(" ".join(error.messages), field="password") from error
