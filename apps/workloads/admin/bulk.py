"""Actions on many workloads in the console: choose, look, start, watch, stop; what became of each."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.http.errors import ApiError
from apps.http.pages import exporting
from apps.http.pages.acting import CONFLICT
from apps.http.pages.display import words
from apps.http.pages.readonly import PageAdmin
from apps.keys.console import acting, namespace_choice
from apps.workloads import bulk, limits
from apps.workloads.clock import now_ms
from apps.workloads.models import BulkOrder, Workload
from apps.workloads.states import BulkAction, BulkOutcome, BulkState

ACT = "workloads.change_workload"
SAMPLE = 10
"""Workloads shown of a set before it is started."""

PAGE_ITEMS = 100
"""Rows of one page of outcomes."""


def bulk_url(order: BulkOrder) -> str:
    """Return the address of an order's page."""
    return reverse("admin:workloads_bulkorder_change", args=[order.bulk_id])


def _over(order: BulkOrder) -> str:
    """Return how an order ended, for who would start it; nothing where it has not."""
    phase = bulk.standing(order).phase
    if phase in ("stopping", "stopped"):
        return f"It was started before, and {order.stopped_by or 'its worker'} stopped it; choose the rest anew."
    return "It was started before and has ended; what became of each is below." if phase == "finished" else ""


@admin.register(BulkOrder)
class BulkOrderAdmin(PageAdmin):
    """What people did to many workloads of one namespace."""

    change_list_template = "admin/workloads/bulkorder/list.html"
    list_display = ["bulk_id"]
    list_display_links = None
    ordering = ["-id"]
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[BulkOrder]:
        """Return those of the namespace the page is about."""
        rows: QuerySet[BulkOrder] = super().get_queryset(request)
        return rows.filter(namespace=namespace_choice(request).current).exclude(state=BulkState.CHOOSING)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show them, newest first."""
        return super().changelist_view(request, {"title": "Bulk actions", **(extra_context or {})})

    def get_urls(self) -> list[URLPattern]:
        """Add choosing and what can be done with an order."""
        view = self.admin_site.admin_view
        own = [
            path("choose/", view(self.choose_view), name="workloads_bulkorder_choose"),
            path("<str:bulk_id>/start/", view(self.start_view), name="workloads_bulkorder_start"),
            path("<str:bulk_id>/stop/", view(self.stop_view), name="workloads_bulkorder_stop"),
            path("<str:bulk_id>/export/", view(self.export_view), name="workloads_bulkorder_export"),
            path("<str:bulk_id>/discard/", view(self.discard_view), name="workloads_bulkorder_discard"),
        ]
        return own + super().get_urls()

    def choose_view(self, request: HttpRequest) -> HttpResponse:
        """Freeze what a list's form names, ticked ids or (`?all`) what matches its filters; nothing is done yet."""
        self._require(request)
        if request.method != "POST":
            return HttpResponseRedirect(reverse("admin:workloads_bulkorder_changelist"))
        asked = request.POST
        action = asked.get("act", "")
        if action not in list(BulkAction):
            raise Http404("there is no such action")
        ids = tuple(asked.getlist("id"))
        everything = bool(request.GET.get("all"))
        if not everything and not ids:
            return self._nothing(request)
        selection = bulk.Selection(ids=ids)
        if everything:
            selection = bulk.Selection(
                state=asked.get("state", ""),
                definition_id=asked.get("definition_id", ""),
                trigger=asked.get("trigger", ""),
                like=asked.get("like"),
            )
        try:
            order = bulk.draft(
                namespace_choice(request).current, BulkAction(action), selection, by=acting(request), now_ms=now_ms()
            )
        except ApiError as refused:
            return self._nothing(request, refused)
        return HttpResponseRedirect(bulk_url(order))

    def show(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one order."""
        return self._page(request, object_id)

    def start_view(self, request: HttpRequest, bulk_id: str) -> HttpResponse:
        """Have a draft carried out; once, however often the button is pressed."""
        return self._act(request, bulk_id, "start")

    def stop_view(self, request: HttpRequest, bulk_id: str) -> HttpResponse:
        """End it where it stands."""
        return self._act(request, bulk_id, "stop")

    def discard_view(self, request: HttpRequest, bulk_id: str) -> HttpResponse:
        """Forget a draft."""
        return self._act(request, bulk_id, "discard")

    def export_view(self, request: HttpRequest, bulk_id: str) -> HttpResponseBase:
        """Give what became of each row as a file, of one outcome or all."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        order = self._find(bulk_id)
        form, outcome = request.GET.get("form", "ndjson"), request.GET.get("outcome", "")
        if form not in exporting.TYPES or outcome not in ("", *BulkOutcome):
            raise Http404("there is no such file")
        try:
            made = bulk.export(order, outcome=outcome, form=form, by=acting(request))
        except ApiError as busy:
            return self._page(request, bulk_id, refusal=busy.message, status=busy.status)
        return exporting.answer(made, form=form, name=order.bulk_id)

    def _act(self, request: HttpRequest, bulk_id: str, what: str) -> HttpResponse:
        self._require(request)
        the_list = reverse("admin:workloads_bulkorder_changelist")
        try:
            order = self._find(bulk_id)
        except Http404:
            if request.method != "POST" or what != "discard":
                raise
            messages.warning(request, "There is no such draft any more; nothing was done.")
            return HttpResponseRedirect(the_list)
        if request.method != "POST":
            return HttpResponseRedirect(bulk_url(order))
        if what == "start" and (over := _over(order)):
            return self._page(request, bulk_id, refusal=over, status=CONFLICT)
        by, reason = acting(request), request.POST.get("reason", "")
        try:
            if what == "discard":
                bulk.discard(order.namespace, bulk_id, by=by)
                messages.success(request, "The draft is forgotten; nothing was done.")
                return HttpResponseRedirect(the_list)
            run = bulk.start if what == "start" else bulk.stop
            run(order.namespace, bulk_id, by=by, now_ms=now_ms(), reason=reason)
        except ApiError as refused:
            return self._page(request, bulk_id, refusal=refused.message, status=refused.status)
        done = "Started." if what == "start" else "Stopped: what is done stays done, the rest is left alone."
        messages.success(request, done)
        return HttpResponseRedirect(bulk_url(order))

    def _require(self, request: HttpRequest) -> None:
        if not request.user.has_perm(ACT):
            raise PermissionDenied

    def _find(self, bulk_id: str) -> BulkOrder:
        order = BulkOrder.objects.filter(bulk_id=bulk_id).exclude(state=BulkState.CHOOSING).first()
        if order is None:
            raise Http404(f"there is no bulk action {bulk_id}")
        return order

    def _nothing(self, request: HttpRequest, refused: ApiError | None = None) -> HttpResponse:
        """Say on the list why no set was made."""
        said = refused.message if refused else "Nothing was chosen: tick the work first, then say what to do with it."
        request.method = "GET"
        answer = self.changelist_view(request, {"refusal": said, "not_done": True})
        answer.status_code = refused.status if refused else CONFLICT
        return answer

    def _page(
        self, request: HttpRequest, bulk_id: str, *, refusal: str | None = None, status: int = 200
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        order = self._find(bulk_id)
        standing = bulk.standing(order)
        shown = next((each for each in BulkOutcome if each == request.GET.get("outcome")), "")
        items = order.items.order_by("position")
        if shown:
            items = items.filter(outcome=shown)
        page = Paginator(items, SAMPLE if order.state == BulkState.DRAFT else PAGE_ITEMS)
        page_of = page.get_page(request.GET.get("page"))
        rows = list(page_of.object_list)
        works = {
            each.workload_id: each for each in Workload.objects.filter(workload_id__in=[r.workload_id for r in rows])
        }
        mine = getattr(request.user, "pk", None) == order.person_id
        may = request.user.has_perm(ACT)
        context = {
            **self.admin_site.each_context(request),
            "title": f"{words(order.action).capitalize()} {order.total:,} workload{'' if order.total == 1 else 's'}",
            "opts": self.opts,
            "order": order,
            "standing": standing,
            "most": limits.MAX_BULK,
            "handled": standing.done + standing.refused,
            "rows": [(row, works.get(row.workload_id)) for row in rows],
            "page": page_of,
            "shown": shown,
            "outcomes": [
                (BulkOutcome.DONE, standing.done),
                (BulkOutcome.REFUSED, standing.refused),
                (BulkOutcome.PENDING, standing.pending),
            ],
            "may_start": may and mine and standing.phase == "draft" and order.total,
            "may_stop": may and standing.phase in ("waiting", "running"),
            "may_discard": may and standing.phase == "draft",
            "refusal": refusal,
        }
        return TemplateResponse(request, "admin/workloads/bulkorder/one.html", context, status=status)
