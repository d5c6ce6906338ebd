"""Grants in the console: a list to search, and each grant whole. They are revoked by command or API."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.http.pages.display import instant
from apps.http.pages.readonly import ReadOnlyAdmin
from apps.keys.console import namespace_choice
from apps.keys.grants.models import IssuedGrant

_SHOWN = (
    *("grant_id", "held_by", "given_by", "key", "parent", "application_id"),
    *("may", "on", "begins", "ends", "revoked", "revoked_by"),
)


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
    fields = _SHOWN
    readonly_fields = _SHOWN

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

    @admin.display(description="may")
    def may(self, row: IssuedGrant) -> str:
        """Return the capabilities."""
        return " ".join(sorted(row.signed().grant.capabilities))

    @admin.display(description="on")
    def on(self, row: IssuedGrant) -> str:
        """Return the resources."""
        return " ".join(resource.uri for resource in row.signed().grant.resources)

    @admin.display(description="since")
    def begins(self, row: IssuedGrant) -> str:
        """Return the instant of issue."""
        return instant(row.issued_at_ms)

    @admin.display(description="ends")
    def ends(self, row: IssuedGrant) -> str:
        """Return the instant of its end."""
        return instant(row.expires_at_ms)

    @admin.display(description="revoked")
    def revoked(self, row: IssuedGrant) -> str:
        """Return the instant of its revocation."""
        return instant(row.revoked_at_ms)
