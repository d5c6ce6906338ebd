"""The people who use the console, in the console. Thin: what may happen to them is in `services/operators.py`."""

from typing import Any

import django.contrib.auth.admin  # noqa: F401 - registers the groups that are unregistered below
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.http.pages.readonly import ReadOnlyAdmin
from apps.keys.console import acting
from apps.keys.models import Operator
from apps.operations.services import operators
from apps.operations.services.operators import OperatorRefused
from apps.operations.services.roles import MEANING, Role, role_of

# Roles are a table in code; Django's page for groups would change it behind the code's back.
admin.site.unregister(Group)

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
class OperatorAdmin(ReadOnlyAdmin):
    """Lists people, makes accounts, changes roles and passwords, stops accounts."""

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

    def get_urls(self) -> list[URLPattern]:
        """Add the actions."""
        act = self.admin_site.admin_view(self.act_view)
        return [path("<int:pk>/do/<str:action>/", act, name="keys_operator_act"), *super().get_urls()]

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

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one person and what can be done."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self._page(request, self._find(object_id))

    def act_view(self, request: HttpRequest, pk: int, action: str) -> HttpResponse:
        """Change the role or the password, stop the account or let it go on."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        person = self._find(str(pk))
        if request.method != "POST":
            return HttpResponseRedirect(reverse("admin:keys_operator_change", args=[pk]))
        try:
            done = _do(person, action, request)
        except OperatorRefused as refused:
            return self._page(request, self._find(str(pk)), refusal=refused.message, status=409)
        self.log_change(request, person, done)
        messages.success(request, f"{person.username}: {done}.")
        return HttpResponseRedirect(reverse("admin:keys_operator_change", args=[pk]))

    def _find(self, object_id: str) -> Operator:
        rows = Operator.objects.prefetch_related("groups")
        person = rows.filter(pk=object_id).first() if object_id.isascii() and object_id.isdigit() else None
        if person is None:
            raise Http404("there is no such operator")
        return person

    def _page(
        self, request: HttpRequest, person: Operator, *, refusal: str | None = None, status: int = 200
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": person.username,
            "opts": self.opts,
            "person": person,
            "role": role_of(person),
            "meaning": MEANING.get(role_of(person) or Role.VIEWER) if role_of(person) else "may not use the console",
            "roles": ROLES,
            "may_act": self.has_add_permission(request),
            "refusal": refusal,
        }
        return TemplateResponse(request, "admin/keys/operator/one.html", context, status=status)


def _do(person: Operator, action: str, request: HttpRequest) -> str:
    """Run one action and say what was done. Raises OperatorRefused, Http404 for an unknown one."""
    if action == "role":
        role = request.POST.get("role", "")
        if role not in list(Role):
            raise OperatorRefused("Choose a role.")
        operators.set_role(person.pk, Role(role), by=acting(request))
        return f"role is now {role}"
    if action == "password":
        operators.set_password(person.pk, request.POST.get("password", ""), by=acting(request))
        return "has a new password, and is signed out everywhere"
    if action in ("stop", "start"):
        operators.set_active(person.pk, action == "start", by=acting(request))
        return "may sign in again" if action == "start" else "is stopped, and signed out everywhere"
    raise Http404
