"""The audit trail in the console: a list to search, and each event whole. Nothing here writes."""

from django.contrib import admin

from apps.http.pages.display import instant
from apps.http.pages.readonly import ReadOnlyAdmin
from apps.keys.audit.models import AuditEvent

_SHOWN = (
    *("when", "who", "key_id", "address", "namespace", "action", "target"),
    *("outcome", "code", "reason", "request_id", "before_digest", "after_digest", "count"),
)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """Events of the whole instance, newest first."""

    list_display = ["when", "who", "action", "target", "namespace", "outcome", "reason", "count"]
    list_filter = ["outcome", "principal_kind"]
    search_fields = [f"{name}__exact" for name in ("action", "subject", "key_id", "target", "request_id", "namespace")]
    search_help_text = "Exactly an action, a subject, a key's id, a target, a request's id or a namespace."
    ordering = ["-id"]
    sortable_by = ()
    fields = _SHOWN
    readonly_fields = _SHOWN

    @admin.display(description="when")
    def when(self, event: AuditEvent) -> str:
        """Return the instant."""
        return instant(event.at_ms)

    @admin.display(description="who")
    def who(self, event: AuditEvent) -> str:
        """Return the subject, or where an unknown caller came from."""
        return event.subject or f"unknown, from {event.address}"
