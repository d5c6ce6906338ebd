"""Keys and namespaces in the console. Thin: issuing and revoking are the services'.

Nothing here adds, changes or deletes a row of a key by itself, and nothing shows a secret but the page that made it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters

from apps.http.pages.acting import CONFLICT
from apps.http.pages.readonly import ReadOnlyAdmin
from apps.keys import console, services
from apps.keys.audit import admin as _audit_pages  # noqa: F401  (registers its page)
from apps.keys.clock import utc_now
from apps.keys.forms import IssueForm, RotateForm, TesterForm
from apps.keys.grants import admin as _grant_pages  # noqa: F401  (registers its page)
from apps.keys.models import ApiKey, Namespace
from apps.keys.principal import Principal
from apps.keys.scopes import EVERYTHING, SCOPES
from apps.keys.sessions import admin as _session_pages  # noqa: F401  (registers its page)


def acting(request: HttpRequest) -> Principal:
    """Return the principal of the superuser at the console, who runs the instance. Nobody else acts on keys here."""
    if not request.user.is_active or not request.user.is_superuser:
        raise PermissionDenied
    return console.acting(request)


@dataclass(frozen=True, kw_only=True, slots=True)
class Right:
    """A scope that a key holds, what it means, and when it was last used; None for never."""

    scope: str
    meaning: str
    last_at: datetime | None


def rights(key: ApiKey) -> list[Right]:
    """Return every right the key holds, those of `*` one by one, each with its last use."""
    used = {use.scope: use.last_at for use in key.uses.all()}
    held = [scope for scope in SCOPES if scope != EVERYTHING] if EVERYTHING in key.scopes else key.scopes
    return [Right(scope=scope, meaning=SCOPES.get(scope, ""), last_at=used.get(scope)) for scope in held]


def _status(form: IssueForm | RotateForm) -> int:
    return CONFLICT if form.conflict else 200


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

    def get_urls(self) -> list[URLPattern]:
        """Add the pages that rotate a key and that test a call."""
        site = self.admin_site
        own = [
            path("tester/", site.admin_view(self.tester_view), name="keys_apikey_tester"),
            path("<str:key_id>/rotate/", site.admin_view(self.rotate_view), name="keys_apikey_rotate"),
        ]
        return own + super().get_urls()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one key: its facts, the secrets that open it, the rights it holds beside those it used."""
        key = ApiKey.objects.filter(pk=object_id).first()
        held = {} if key is None else {"rights": rights(key), "secrets": list(key.secrets.order_by("-pk"))}
        held["may_rotate"] = key is not None and self.has_add_permission(request) and key.state(utc_now()) == "live"
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **held})

    @method_decorator(sensitive_post_parameters())
    def rotate_view(self, request: HttpRequest, key_id: str) -> HttpResponse:
        """Ask how long the old secret goes on; rotate; answer that request, and no other, with the new secret."""
        by = acting(request)
        key = get_object_or_404(ApiKey, pk=key_id)
        form = RotateForm(request.POST or None, initial={"newest": services.newest_secret(key)})
        issued = form.rotate(key, by) if request.method == "POST" and form.is_valid() else None
        if issued is None:
            return self._page(request, "rotate", f"Rotate {key.name}", status=_status(form), form=form, key=key)
        self.log_change(request, key, "rotated")
        return self._page(request, "issued", "The key has a new secret", key=issued.key, secret=issued.secret)

    @method_decorator(sensitive_post_parameters("secret"))
    def tester_view(self, request: HttpRequest) -> HttpResponse:
        """Ask for a key and a call; say whether it would pass, and which rule decides."""
        by = acting(request)
        form = TesterForm(request.POST or None, initial={"key": request.GET.get("key", ""), "path": "/v1/"})
        found = form.verdict(by) if request.method == "POST" and form.is_valid() else None
        return self._page(request, "tester", "Would this call pass?", form=form, found=found)

    def _page(
        self, request: HttpRequest, template: str, title: str, *, status: int = 200, **context: Any
    ) -> HttpResponse:
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "title": title}
        return TemplateResponse(request, f"admin/keys/apikey/{template}.html", shared | context, status=status)

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
        if issued is None:
            return self._page(request, "issue", "Issue an API key", status=_status(form), form=form)
        self.log_addition(request, issued.key, "issued")
        return self._page(request, "issued", "The key is issued", key=issued.key, secret=issued.secret)

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        """Ask once more, then end the keys at once, in every running process."""
        by = acting(request)
        keys = list(queryset.filter(revoked_at=None))
        if not keys and "confirmed" in request.POST:
            return self._page(request, "revoke", "Nothing was done", status=CONFLICT, ended=list(queryset))
        if not keys:
            self.message_user(request, "All of these are revoked already.", messages.INFO)
            return None
        if "confirmed" not in request.POST:
            return self._page(request, "revoke", "Are you sure?", keys=keys)
        for key in services.revoke_keys([key.id for key in keys], by=by):
            self.log_change(request, key, "revoked")
        self.message_user(request, f"Revoked: {', '.join(str(key) for key in keys)}.", messages.SUCCESS)
        return None


@admin.register(Namespace)
class NamespaceAdmin(ReadOnlyAdmin):
    """Lists namespaces; they come with the first key that names them."""

    list_display = ["name", "created_at"]
    search_fields = ["name"]
