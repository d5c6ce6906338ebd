"""Keys and namespaces in the console. Thin: issuing and revoking are the services'.

Nothing here adds, changes or deletes a row of a key by itself, and nothing shows a secret but the page that made it.
"""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from apps.http.pages.readonly import ReadOnlyAdmin
from apps.keys import console, services
from apps.keys.audit import admin as _audit_pages  # noqa: F401  (registers its page)
from apps.keys.clock import utc_now
from apps.keys.grants import admin as _grant_pages  # noqa: F401  (registers its page)
from apps.keys.models import ApiKey, Namespace
from apps.keys.principal import Principal
from apps.keys.scopes import SCOPES


def acting(request: HttpRequest) -> Principal:
    """Return the principal of the superuser at the console, who runs the instance. Nobody else acts on keys here."""
    if not request.user.is_active or not request.user.is_superuser:
        raise PermissionDenied
    return console.acting(request)


class Words(forms.CharField):
    """Names parted by blanks or commas."""

    def clean(self, value: Any) -> list[str]:
        """Return the names."""
        return str(super().clean(value) or "").replace(",", " ").split()


class IssueForm(forms.Form):
    """What an operator says of a new key. What is allowed, the service says."""

    name = forms.CharField(help_text="What the key is for, as lists show it.")
    namespaces = Words(initial="default", help_text="Where it may act; * for every namespace.")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {meaning}") for scope, meaning in SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
        help_text="What it may do.",
    )
    kind = forms.ChoiceField(choices=[("service", "a service"), ("agent", "an agent")], label="Acts as")
    worker_id = forms.CharField(required=False, help_text="Makes it the key of exactly this worker.")
    collections = Words(required=False, help_text="Only these collections; empty for all.")
    expires_at = forms.DateTimeField(required=False, help_text="UTC, such as 2027-01-31 00:00; empty for never.")

    def issue(self, issuer: Principal) -> services.IssuedKey | None:
        """Issue the key; where the service refuses, put its reason on the form and return None."""
        wanted = self.cleaned_data
        try:
            return services.issue_key(
                name=wanted["name"],
                namespaces=wanted["namespaces"],
                scopes=wanted["scopes"],
                kind=wanted["kind"],
                worker_id=wanted["worker_id"] or None,
                collections=wanted["collections"] or None,
                expires_at=wanted["expires_at"],
                issuer=issuer,
            )
        except services.KeyInvalid as refused:
            self.add_error(refused.field if refused.field in self.fields else None, str(refused))
        except services.KeyRefused as refused:
            self.add_error(None, str(refused))
        return None


class StateFilter(admin.SimpleListFilter):
    """Live, expired or revoked."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [("live", "live"), ("expired", "expired"), ("revoked", "revoked")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        """Return the keys in the chosen state."""
        ended = Q(expires_at__lte=utc_now())
        states = {
            "live": Q(revoked_at=None) & ~ended,
            "expired": Q(revoked_at=None) & ended,
            "revoked": Q(revoked_at__isnull=False),
        }
        chosen = self.value()
        return queryset.filter(states[chosen]) if chosen in states else queryset


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Lists keys, issues them (the secret is shown once) and revokes them."""

    list_display = ["name", "id", "state", "acts_as", "opens", "may", "expires_at", "last_used_at"]
    list_filter = [StateFilter, "kind"]
    search_fields = ["name", "id", "worker_id", "namespaces", "created_by"]
    search_help_text = "Name, public id, worker, namespace, or who made it. Secrets cannot be searched for."
    actions = ["revoke"]
    date_hierarchy = "created_at"
    fields = ["name", "id", "state", "acts_as", "opens", "may", "reaches", "expires_at", "last_used_at"]
    fields += ["created_at", "created_by", "revoked_at", "revoked_by"]

    @admin.display(description="state")
    def state(self, key: ApiKey) -> str:
        """Return live, expired or revoked."""
        return key.state(utc_now())

    @admin.display(description="acts as", ordering="kind")
    def acts_as(self, key: ApiKey) -> str:
        """Return the kind, and which worker."""
        return f"worker {key.worker_id}" if key.worker_id else key.kind

    @admin.display(description="namespaces")
    def opens(self, key: ApiKey) -> str:
        """Return the namespaces."""
        return ", ".join(key.namespaces)

    @admin.display(description="scopes")
    def may(self, key: ApiKey) -> str:
        """Return the scopes."""
        return " ".join(key.scopes)

    @admin.display(description="collections")
    def reaches(self, key: ApiKey) -> str:
        """Return the collections."""
        return "all" if key.collections is None else ", ".join(key.collections)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whoever runs the instance issues keys."""
        return bool(request.user.is_active and request.user.is_superuser)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Whoever runs the instance revokes keys."""
        return self.has_add_permission(request)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Ask what the key should be; issue it; answer that request, and no other, with the secret."""
        issuer = acting(request)
        form = IssueForm(request.POST or None)
        issued = form.issue(issuer) if request.method == "POST" and form.is_valid() else None
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "form": form,
            "title": "Issue an API key",
        }
        if issued is None:
            return TemplateResponse(request, "admin/keys/apikey/issue.html", context)
        self.log_addition(request, issued.key, "issued")
        context |= {"key": issued.key, "secret": issued.secret, "title": "The key is issued"}
        return TemplateResponse(request, "admin/keys/apikey/issued.html", context)

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        """Ask once more, then end the keys at once, in every running process."""
        by = acting(request)
        keys = list(queryset.filter(revoked_at=None))
        if not keys:
            self.message_user(request, "All of these are revoked already.", messages.INFO)
            return None
        if "confirmed" not in request.POST:
            context = {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "keys": keys,
                "title": "Are you sure?",
            }
            return TemplateResponse(request, "admin/keys/apikey/revoke.html", context)
        for key in keys:
            services.revoke_key(key.id, by=by)
            self.log_change(request, key, "revoked")
        self.message_user(request, f"Revoked: {', '.join(str(key) for key in keys)}.", messages.SUCCESS)
        return None


@admin.register(Namespace)
class NamespaceAdmin(ReadOnlyAdmin):
    """Lists namespaces; they come with the first key that names them."""

    list_display = ["name", "created_at"]
    search_fields = ["name"]
