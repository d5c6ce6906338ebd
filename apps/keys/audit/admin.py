"""The audit trail in the console: a search, each event whole, and the export of what a search finds. Nothing writes."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from apps.http.errors import ApiError
from apps.http.pages.display import instant
from apps.http.pages.exporting import TYPES, answer
from apps.http.pages.limits import PAGE_ROWS
from apps.http.pages.readonly import ReadOnlyAdmin
from apps.keys.audit import exporting, limits, reading
from apps.keys.audit.models import AuditEvent
from apps.keys.clock import milliseconds
from apps.keys.console import acting

_SHOWN = (
    *("when", "who", "key_id", "address", "namespace", "action", "target"),
    *("outcome", "code", "reason", "request_id", "before_digest", "after_digest", "count"),
)
_MOMENTS = ["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]


def _exactly(label: str, *, max_chars: int = limits.MAX_TARGET_CHARS) -> forms.CharField:
    return forms.CharField(required=False, label=label, max_length=max_chars)


def _moment(label: str) -> forms.DateTimeField:
    return forms.DateTimeField(
        required=False,
        label=label,
        input_formats=_MOMENTS,
        widget=forms.TextInput(attrs={"placeholder": "2027-01-31 00:00"}),
    )


class SearchForm(forms.Form):
    """What to look for; what is left empty asks nothing. `in` is the namespace of the event, not that of the page."""

    action = _exactly("Action", max_chars=limits.MAX_ACTION_CHARS)
    subject = _exactly("Who")
    key_id = _exactly("Key id")
    target = _exactly("What it was done to")
    request_id = _exactly("Request")
    within = _exactly("In the namespace")
    code = _exactly("Code")
    outcome = forms.ChoiceField(
        required=False, choices=[("", "any"), *((value, value) for value in AuditEvent.Outcome.values)]
    )
    after = _moment("From (UTC)")
    before = _moment("To (UTC)")

    def filters(self) -> reading.Filters:
        """Return the filters; the form is valid."""
        asked = self.cleaned_data
        texts = {
            name: asked[name] or None
            for name in ("action", "subject", "key_id", "target", "request_id", "code", "outcome")
        }
        return reading.Filters(
            **texts, namespace=asked["within"] or None, from_ms=_ms(asked["after"]), to_ms=_ms(asked["before"])
        )


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else milliseconds(moment.replace(tzinfo=UTC))


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """Events of the whole instance, newest first."""

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

    def get_urls(self) -> list[URLPattern]:
        """Add the export."""
        export = self.admin_site.admin_view(self.export_view)
        return [path("export/", export, name="keys_auditevent_export"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show what a search finds, a page at a time."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self._page(request)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Give everything that a search finds as a file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = SearchForm(request.GET)
        kind = request.GET.get("form", "ndjson")
        if not form.is_valid() or kind not in TYPES:
            return self._page(request)
        try:
            made = exporting.begin(acting(request), form.filters(), form=kind, target=request.path)
        except ApiError as busy:
            return self._page(request, refusal=busy.message, status=busy.status)
        return answer(made, form=kind, name="audit")

    def _page(self, request: HttpRequest, *, refusal: str = "", status: int = 200) -> HttpResponse:
        form = SearchForm(request.GET)
        asked = {name: value for name, value in request.GET.items() if name in form.fields and value}
        context = {
            **self.admin_site.each_context(request),
            "title": "Audit",
            "opts": self.opts,
            "form": form,
            "asked": asked,
            "refusal": refusal,
        }
        if form.is_valid():
            below = request.GET.get("below", "")
            found = reading.page(
                acting(request),
                form.filters(),
                below=int(below) if below.isascii() and below.isdigit() and len(below) < 19 else None,
                limit=PAGE_ROWS,
            )
            context |= {"events": found.events, "below": found.below}
        else:
            status = 422
        return TemplateResponse(request, "admin/keys/auditevent/list.html", context, status=status)
