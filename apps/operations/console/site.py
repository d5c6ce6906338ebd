"""The console as a site: its pages, and what every page shows around its content."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeVar, cast

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, URLResolver, path, reverse

from apps.keys.console import namespace_choice
from apps.operations.console import (
    backups,
    changes,
    compaction,
    contract,
    dashboard,
    dead_letters,
    instance,
    ledger,
    records,
    search,
    sign_in,
    storage,
    workers,
)
from apps.operations.services import liveness
from apps.workloads.clock import now_ms

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line of the navigation."""

    label: str
    url_name: str
    permission: str = ""
    query: str = ""


NAVIGATION: Sequence[tuple[str, Sequence[Entry]]] = (
    (
        "Now",
        (
            Entry(label="Overview", url_name="index"),
            Entry(label="Dead letters", url_name="dead_letters", permission="workloads.view_workload"),
        ),
    ),
    (
        "Work",
        (
            Entry(label="Workloads", url_name="workloads_workload_changelist", permission="workloads.view_workload"),
            Entry(
                label="Approvals",
                url_name="workloads_workload_changelist",
                permission="workloads.view_workload",
                query="state=AWAITING_APPROVAL",
            ),
            Entry(
                label="Bulk actions", url_name="workloads_bulkorder_changelist", permission="workloads.view_bulkorder"
            ),
            Entry(label="Triggers", url_name="triggers_trigger_changelist", permission="triggers.view_trigger"),
            Entry(
                label="Quarantine",
                url_name="triggers_triggerquarantine_changelist",
                permission="triggers.view_triggerquarantine",
            ),
            Entry(label="Schedules", url_name="workloads_schedule_changelist", permission="workloads.view_schedule"),
            Entry(label="Workers", url_name="workers", permission="workloads.view_registeredworker"),
            Entry(label="Fence", url_name="workloads_refusedword_changelist", permission="workloads.view_refusedword"),
        ),
    ),
    (
        "Data",
        (
            Entry(label="Records", url_name="collections", permission="keys.view_namespace"),
            Entry(label="Changes", url_name="changes", permission="keys.view_namespace"),
            Entry(label="Contract", url_name="contract", permission="keys.view_namespace"),
            Entry(label="Idempotency", url_name="ledger", permission="keys.view_namespace"),
        ),
    ),
    (
        "Instance",
        (
            Entry(label="Doctor", url_name="doctor", permission="keys.view_namespace"),
            Entry(label="Load", url_name="overload", permission="keys.view_namespace"),
            Entry(label="Storage", url_name="storage", permission="keys.view_namespace"),
            Entry(label="Compaction", url_name="compaction", permission="keys.view_namespace"),
            Entry(label="Backups", url_name="backups", permission="keys.view_namespace"),
            Entry(label="Capacity", url_name="capacity", permission="keys.view_namespace"),
        ),
    ),
    (
        "Access",
        (
            Entry(label="API keys", url_name="keys_apikey_changelist", permission="keys.view_apikey"),
            Entry(label="Rates", url_name="rates", permission="keys.view_apikey"),
            Entry(label="Grants", url_name="keys_issuedgrant_changelist", permission="keys.view_issuedgrant"),
            Entry(label="Sessions", url_name="keys_humansession_changelist", permission="keys.view_humansession"),
            Entry(label="Audit", url_name="keys_auditevent_changelist", permission="keys.view_auditevent"),
            Entry(label="Namespaces", url_name="keys_namespace_changelist", permission="keys.view_namespace"),
            Entry(label="Operators", url_name="keys_operator_changelist", permission="keys.view_operator"),
        ),
    ),
)


class ConsoleSite(AdminSite):
    """Django's admin site with our navigation, dashboard and pages over several rooms."""

    site_title = "FeltDB"
    site_header = "FeltDB"
    index_title = "Overview"
    site_url = None
    enable_nav_sidebar = False
    login_form = sign_in.SignInForm

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the sign-in page, or let somebody in."""
        return sign_in.with_status(super().login(request, extra_context))

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Keep a page behind the sign-in; a form whose session has ended is answered there, and leads back."""
        inside = super().admin_view(view, cacheable)

        @wraps(inside)
        def run(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            leaving = request.path == reverse("admin:logout")
            if request.method == "POST" and not leaving and not self.has_permission(request):
                return sign_in.nothing_done(request)
            return inside(request, *args, **kwargs)

        return cast("View", run)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Put our own pages before Django's, which end in a catch-all."""
        own: list[URLPattern | URLResolver] = [
            path("dead-letters/", self._page(dead_letters.page), name="dead_letters"),
            path("workers/", self._page(workers.page), name="workers"),
            path("records/", self._page(records.collections), name="collections"),
            path("records/collection/", self._page(records.page), name="records"),
            path("records/record/", self._page(records.one), name="record"),
            path("records/value/", self._page(records.value), name="record_value"),
            path("changes/", self._page(changes.feed), name="changes"),
            path("changes/change/", self._page(changes.change), name="change"),
            path("changes/transaction/", self._page(changes.transaction), name="transaction"),
            path("changes/workload/<str:workload_id>/", self._page(changes.work), name="work_provenance"),
            path("contract/", self._page(contract.page), name="contract"),
            path("idempotency/", self._page(ledger.page), name="ledger"),
            path("storage/", self._page(storage.page), name="storage"),
            path("storage/<str:namespace>/acknowledge/", self._page(storage.acknowledge), name="storage_acknowledge"),
            path("doctor/", self._page(instance.examined), name="doctor"),
            path("load/", self._page(instance.overload), name="overload"),
            path("compaction/", self._page(compaction.page), name="compaction"),
            path("compaction/run/", self._page(compaction.run), name="compaction_run"),
            path("backups/", self._page(backups.page), name="backups"),
            path("backups/one/", self._page(backups.one), name="backup"),
            path("backups/run/", self._page(backups.run), name="backup_run"),
            path("backups/verify/", self._page(backups.verify), name="backup_verify"),
            path("capacity/", self._page(instance.room), name="capacity"),
            path("rates/", self._page(instance.rates), name="rates"),
            path("search/", self._page(search.page), name="search"),
        ]
        return own + super().get_urls()

    def _page(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        """Give a page the site, behind the sign-in."""

        def run(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return view(self, request, *args, **kwargs)

        return self.admin_view(run)

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Add navigation, namespace and the present moment to what Django gives every page."""
        context = super().each_context(request)
        context["now_ms"] = now_ms()
        if context["has_permission"]:
            context["navigation"] = navigation(request)
            context["here"] = current(context["navigation"])
            context["namespaces"] = namespace_choice(request)
            context["worker_lives"] = partial(_worker_lives, request)  # asked for by the pages that tell it
        return context

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Show the dashboard."""
        return dashboard.page(self, request)


def current(sections: list[dict[str, Any]]) -> str:
    """Return what the navigation calls the page at hand, nothing where it has no entry of its own."""
    return next((link["label"] for section in sections for link in section["links"] if link["current"]), "")


def _worker_lives(request: HttpRequest) -> bool:
    return liveness.serves(namespace_choice(request).current, now=now_ms())


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the sections with the entries this person may see; a page that does not exist is left out."""
    sections = []
    for heading, entries in NAVIGATION:
        links: list[dict[str, Any]] = []
        for entry in entries:
            if entry.permission and not request.user.has_perm(entry.permission):
                continue
            try:
                url = reverse(f"admin:{entry.url_name}")
            except NoReverseMatch:
                continue
            inside = request.path == url if entry.url_name == "index" else request.path.startswith(url)
            if entry.query:
                url, inside = f"{url}?{entry.query}", inside and request.META["QUERY_STRING"] == entry.query
            if inside:  # the more exact one comes later: one page alone is the current one
                for link in links:
                    link["current"] = False
            links.append({"label": entry.label, "url": url, "current": inside})
        if links:
            sections.append({"heading": heading, "links": links})
    return sections
