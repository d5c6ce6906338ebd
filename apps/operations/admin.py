"""The people who use the console, in the console. Thin: what may happen to them is in `services/operators.py`."""

from typing import Any

import django.contrib.auth.admin  # noqa: F401 - registers the groups that are unregistered below
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.crypto import salted_hmac

from apps.http.errors import ApiError
from apps.http.pages.acting import ActingAdmin
from apps.http.pages.readonly import numbered
from apps.keys.console import acting
from apps.keys.models import Operator
from apps.operations.services import operators
from apps.operations.services.operators import OperatorRefused
from apps.operations.services.roles import MEANING, Role, role_of

# Roles are a table in code; Django's page for groups would change it behind the code's back.
admin.site.unregister(Group)

ACT = "keys.add_operator"
"""No role has it: only administrators, who have everything, act here."""

ACTS = ("role", "password", "stop", "start")
ROLES = [(role.value, f"{role.value}: {MEANING[role]}") for role in Role]


class NewOperatorForm(forms.Form):
    """What an administrator says of a new person."""

    name = forms.CharField(help_text="What they sign in with.")
    role = forms.ChoiceField(choices=ROLES, widget=forms.RadioSelect, initial=Role.VIEWER)
    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        strip=False,
        help_text="At least 12 characters, not a common one. They can change it themselves, above on every page.",
    )


@admin.register(Operator)
class OperatorAdmin(ActingAdmin):
    """Lists people, makes accounts, changes roles and passwords, stops accounts."""

    act_permission = ACT
    acts = ACTS

    list_display = ["username", "role", "is_active", "last_login", "date_joined"]
    search_fields = ["username"]
    ordering = ["username"]
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Operator]:
        """Read the groups along."""
        rows: QuerySet[Operator] = super().get_queryset(request)
        return rows.prefetch_related("groups")

    @admin.display(description="role")
    def role(self, person: Operator) -> str:
        """Return the role's name."""
        return role_of(person) or "none"

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Administrators make operators."""
        return bool(request.user.is_active and request.user.is_superuser)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask for name, role and password; make the account."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = NewOperatorForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            wanted = form.cleaned_data
            try:
                person = operators.create_operator(
                    name=wanted["name"], password=wanted["password"], role=Role(wanted["role"]), by=acting(request)
                )
            except OperatorRefused as refused:
                form.add_error(refused.field or None, refused.message)
            else:
                self.log_addition(request, person, f"made as {wanted['role']}")
                messages.success(request, f"{person.username} can sign in now, as {wanted['role']}.")
                return HttpResponseRedirect(reverse("admin:keys_operator_changelist"))
        context = {**self.admin_site.each_context(request), "title": "Make an operator", "form": form}
        status = 422 if form.errors else 200
        return TemplateResponse(request, "admin/keys/operator/new.html", context, status=status)

    def find(self, object_id: str) -> Operator:
        """Return the person. Raises Http404."""
        return numbered(Operator.objects.prefetch_related("groups"), object_id, "operator")

    def moved_on(self, person: Operator, seen: str) -> str:
        """Tell how the account stands, where role, password or leave to sign in are not what was seen."""
        if seen == _seen(person):
            return ""
        return (
            "Nothing was done: the account has changed since the page was shown. It is "
            f"{'active' if person.is_active else 'stopped'} now, with the role {role_of(person) or 'none'}; "
            "look at it and decide again."
        )

    def act(self, request: HttpRequest, person: Operator, action: str, reason: str) -> str:
        """Change the role or the password, stop the account or let it go on."""
        try:
            done = _do(person, action, request)
        except OperatorRefused as refused:
            raise ApiError("CONFLICT", refused.message) from refused
        self.log_change(request, person, done)
        return f"{person.username}: {done}."

    def page_of(
        self, request: HttpRequest, person: Operator, *, refusal: str | None = None, status: int = 200
    ) -> HttpResponse:
        """Return the page of one person."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": person.username,
            "opts": self.opts,
            "person": person,
            "seen": _seen(person),
            "role": role_of(person),
            "meaning": MEANING.get(role_of(person) or Role.VIEWER) if role_of(person) else "may not use the console",
            "roles": ROLES,
            "may_act": self.has_add_permission(request),
            "refusal": refusal,
        }
        return TemplateResponse(request, "admin/keys/operator/one.html", context, status=status)


def _seen(person: Operator) -> str:
    """Return what changes with the role, the password and the leave to sign in, and tells nothing of them."""
    stands = f"{role_of(person)} {person.is_active} {person.password}"
    return salted_hmac("apps.operations.admin", stands, algorithm="sha256").hexdigest()[:32]


def _do(person: Operator, action: str, request: HttpRequest) -> str:
    """Run one of ACTS and say what was done. Raises OperatorRefused."""
    if action == "role":
        role = request.POST.get("role", "")
        if role not in list(Role):
            raise OperatorRefused("Choose a role.")
        operators.set_role(person.pk, Role(role), by=acting(request))
        return f"role is now {role}"
    if action == "password":
        operators.set_password(person.pk, request.POST.get("password", ""), by=acting(request))
        return "has a new password, and is signed out everywhere"
    operators.set_active(person.pk, action == "start", by=acting(request))
    return "may sign in again" if action == "start" else "is stopped, and signed out everywhere"
