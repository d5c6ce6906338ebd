"""Grants in the console: a list to search, each grant with what it stands on and what stands on it, and its end."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.http.pages.display import instant
from apps.http.pages.readonly import ReadOnlyAdmin
from apps.keys.clock import now_ms
from apps.keys.console import acting, namespace_choice
from apps.keys.grants import limits, services
from apps.keys.grants.errors import GrantInvalid, GrantRefused
from apps.keys.grants.form import SignedGrant
from apps.keys.grants.models import IssuedGrant

MAX_CHILDREN = 100
"""Grants delegated from one that its page lists."""

_ANCESTORS = "__".join(["parent"] * limits.MAX_DEPTH)


@admin.register(IssuedGrant)
class IssuedGrantAdmin(ReadOnlyAdmin):
    """The grants of one namespace at a time, newest first."""

    list_display = ["grant_id", "held_by", "given_by", "application_id", "ends", "revoked"]
    list_select_related = ["key"]
    list_filter = ["subject_kind", ("revoked_at_ms", admin.EmptyFieldListFilter)]
    search_fields = ["grant_id__exact", "subject_id__exact", "issuer_id__exact", "key__id__exact"]
    search_help_text = "Exactly a grant's id, or the id of its subject, its issuer or its key."
    ordering = ["-id"]
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[IssuedGrant]:
        """Return the grants of the namespace the page is about."""
        return super().get_queryset(request).filter(namespace=namespace_choice(request).current)

    @admin.display(description="for")
    def held_by(self, row: IssuedGrant) -> str:
        """Return the subject."""
        return f"{row.subject_kind}:{row.subject_id}"

    @admin.display(description="from")
    def given_by(self, row: IssuedGrant) -> str:
        """Return the issuer."""
        return f"{row.issuer_kind}:{row.issuer_id}"

    @admin.display(description="ends")
    def ends(self, row: IssuedGrant) -> str:
        """Return the instant of its end."""
        return instant(row.expires_at_ms)

    @admin.display(description="revoked")
    def revoked(self, row: IssuedGrant) -> str:
        """Return the instant of its revocation."""
        return instant(row.revoked_at_ms)

    def get_urls(self) -> list[URLPattern]:
        """Add the page that ends a grant."""
        revoke = self.admin_site.admin_view(self.revoke_view)
        return [path("<int:pk>/revoke/", revoke, name="keys_issuedgrant_revoke"), *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one grant."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self._page(request, self._find(object_id))

    def revoke_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """End a grant, and with it everything delegated from it."""
        by = acting(request)
        if not by.has("grants:write"):
            raise PermissionDenied
        row = self._find(str(pk))
        if request.method != "POST":
            return HttpResponseRedirect(_url(row))
        if row.revoked_at_ms is not None:
            return self._page(request, row, refusal="It was revoked already; nothing was changed.", status=409)
        reason = request.POST.get("reason", "")
        try:
            services.revoke(row.grant_id, by, tenant_id=row.namespace, now_ms=now_ms(), reason=reason)
        except GrantRefused as refused:
            return self._page(request, self._find(str(pk)), refusal=refused.message, status=409)
        messages.success(request, f"{row.grant_id} is revoked, and with it everything that was delegated from it.")
        return HttpResponseRedirect(_url(row))

    def _find(self, object_id: str) -> IssuedGrant:
        rows = IssuedGrant.objects.select_related("key", "person", _ANCESTORS)
        known = object_id.isascii() and object_id.isdigit() and len(object_id) < 19
        row = rows.filter(pk=object_id).first() if known else None
        if row is None:
            raise Http404("there is no such grant")
        return row

    def _page(self, request: HttpRequest, row: IssuedGrant, *, refusal: str = "", status: int = 200) -> HttpResponse:
        try:
            signed: SignedGrant | None = row.signed()
        except GrantInvalid:
            signed = None
        dead = None if signed is None else services.standing(signed, now_ms=now_ms())
        children = list(row.children.order_by("-pk")[: MAX_CHILDREN + 1])
        context = {
            **self.admin_site.each_context(request),
            "title": row.grant_id,
            "opts": self.opts,
            "row": row,
            "grant": None if signed is None else signed.grant,
            "capabilities": [] if signed is None else sorted(signed.grant.capabilities),
            "document": None if signed is None else signed.grant.wire(),
            "dead": dead,
            "ancestors": _ancestors(row),
            "children": children[:MAX_CHILDREN],
            "more_children": len(children) > MAX_CHILDREN,
            "may_revoke": row.revoked_at_ms is None and acting(request).has("grants:write"),
            "refusal": refusal,
            "api_url": request.build_absolute_uri(f"/v1/grants/{row.grant_id}"),
        }
        return TemplateResponse(request, "admin/keys/issuedgrant/one.html", context, status=status)


def _ancestors(row: IssuedGrant) -> list[IssuedGrant]:
    """Return the grants this one stands on, the first one first."""
    found: list[IssuedGrant] = []
    above = row.parent
    while above is not None and len(found) < limits.MAX_DEPTH:
        found.insert(0, above)
        above = above.parent
    return found


def _url(row: IssuedGrant) -> str:
    return reverse("admin:keys_issuedgrant_change", args=[row.pk])
