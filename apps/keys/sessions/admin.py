"""People's sessions of the API in the console: who is signed in, since when, for what; and ending one."""

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
from apps.keys.console import acting
from apps.keys.sessions import services
from apps.keys.sessions.models import HumanSession


def may_end(request: HttpRequest, session: HumanSession) -> bool:
    """Tell whether this person may end the session: administrators any, everybody their own."""
    return bool(request.user.is_superuser or session.person_id == request.user.pk)


@admin.register(HumanSession)
class HumanSessionAdmin(ReadOnlyAdmin):
    """Sessions that were opened over the API, newest first. Those that are over go when the next one is opened."""

    list_display = ["id", "of", "state", "opened", "ends"]
    list_select_related = ["person"]
    search_fields = ["id__exact", "person__username__exact"]
    search_help_text = "Exactly a session's id, or a person's name."
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[HumanSession]:
        """Read the people along."""
        rows: QuerySet[HumanSession] = super().get_queryset(request)
        return rows.select_related("person")

    @admin.display(description="of")
    def of(self, session: HumanSession) -> str:
        """Return whose it is."""
        return session.person.get_username()

    @admin.display(description="state")
    def state(self, session: HumanSession) -> str:
        """Return how it stands."""
        return services.state_of(session, now_ms=now_ms())

    @admin.display(description="opened")
    def opened(self, session: HumanSession) -> str:
        """Return the instant it began."""
        return instant(session.created_at_ms)

    @admin.display(description="ends")
    def ends(self, session: HumanSession) -> str:
        """Return the instant it ends, or ended."""
        return instant(session.ended_at_ms or session.expires_at_ms)

    def get_urls(self) -> list[URLPattern]:
        """Add the page that ends a session."""
        end = self.admin_site.admin_view(self.end_view)
        return [path("<str:session_id>/end/", end, name="keys_humansession_end"), *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one session."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self._page(request, self._find(object_id))

    def end_view(self, request: HttpRequest, session_id: str) -> HttpResponse:
        """End a session in every process."""
        session = self._find(session_id)
        if not self.has_view_permission(request) or not may_end(request, session):
            raise PermissionDenied
        url = reverse("admin:keys_humansession_change", args=[session.pk])
        if request.method != "POST":
            return HttpResponseRedirect(url)
        if not services.end(session, by=acting(request), now_ms=now_ms()):
            return self._page(request, self._find(session_id), refusal="It had ended already.", status=409)
        messages.success(request, f"The session of {session.person.get_username()} is ended; its token opens nothing.")
        return HttpResponseRedirect(url)

    def _find(self, session_id: str) -> HumanSession:
        session = HumanSession.objects.select_related("person").filter(pk=session_id.replace("\0", "")).first()
        if session is None:
            raise Http404("there is no such session; it may have ended long ago")
        return session

    def _page(
        self, request: HttpRequest, session: HumanSession, *, refusal: str = "", status: int = 200
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"Session {session.pk}",
            "opts": self.opts,
            "session": session,
            "state": services.state_of(session, now_ms=now_ms()),
            "may_end": may_end(request, session) and services.state_of(session, now_ms=now_ms()) == "live",
            "refusal": refusal,
        }
        return TemplateResponse(request, "admin/keys/humansession/one.html", context, status=status)
