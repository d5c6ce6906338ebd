"""One registered worker in the console: what it may be given, what it holds, who it was; drain, recover, forget."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.http.errors import ApiError
from apps.http.pages.readonly import PageAdmin, numbered
from apps.keys.audit.models import AuditEvent
from apps.keys.console import acting
from apps.workloads.clock import now_ms
from apps.workloads.lifecycle import BY_EVENT, HEARTBEAT_TIMEOUT_MS, Lifecycle
from apps.workloads.models import RefusedWord, RegisteredWorker, Workload
from apps.workloads.services import placement, registry

ACT = "workloads.change_workload"
MAX_SHOWN = 50

OUTCOMES = {
    "drain": "gets no more work, and goes offline once it holds none",
    "recover": "may come back: it is ready at its next sign of life",
    "remove": "is forgotten; registering makes it known again",
}


@admin.register(RegisteredWorker)
class RegisteredWorkerAdmin(PageAdmin):
    """Registered workers; the list is the page of all workers, our own processes among them."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Go to the page of all workers."""
        return HttpResponseRedirect(reverse("admin:workers"))

    def get_urls(self) -> list[URLPattern]:
        """Add what can be done with a worker."""
        act = self.admin_site.admin_view(self.act_view)
        return [path("<int:pk>/do/<str:action>/", act, name="workloads_registeredworker_act"), *super().get_urls()]

    def show(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one worker."""
        return self._page(request, self._find(object_id))

    def act_view(self, request: HttpRequest, pk: int, action: str) -> HttpResponse:
        """Drain, recover or forget the worker, where it is still the incarnation and state that the page showed."""
        if not request.user.has_perm(ACT):
            raise PermissionDenied
        if action not in OUTCOMES:
            raise Http404("there is no such action")
        worker = self._find(str(pk))
        here = reverse("admin:workloads_registeredworker_change", args=[worker.pk])
        if request.method != "POST":
            return HttpResponseRedirect(here)
        if request.POST.get("seen", "") != _seen(worker):
            moved = (
                "Nothing was done: the worker has changed since the page was shown. It is "
                f"{worker.lifecycle.lower()} now, as {worker.incarnation_id}; look at it and decide again."
            )
            return self._page(request, worker, refusal=moved, status=409)
        run = {"drain": registry.drain, "recover": registry.recover, "remove": registry.remove}[action]
        try:
            run(
                worker.namespace,
                worker.worker_id,
                by=acting(request),
                now_ms=now_ms(),
                reason=request.POST.get("reason", "").strip(),
            )
        except ApiError as refused:
            return self._page(request, worker, refusal=refused.message, status=refused.status)
        messages.success(request, f"{worker.worker_id} {OUTCOMES[action]}.")
        return HttpResponseRedirect(reverse("admin:workers") if action == "remove" else here)

    def _find(self, object_id: str) -> RegisteredWorker:
        return numbered(RegisteredWorker.objects.all(), object_id, "worker")

    def _page(
        self, request: HttpRequest, worker: RegisteredWorker, *, refusal: str | None = None, status: int = 200
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        held = Workload.objects.filter(namespace=worker.namespace, worker_id=worker.worker_id)
        told = AuditEvent.objects.filter(
            namespace=worker.namespace, target=worker.worker_id, action__startswith="worker."
        )
        words = RefusedWord.objects.filter(namespace=worker.namespace, worker_id=worker.worker_id)
        offered = [event for event in ("drain", "recover") if _offers(worker, event)]
        context = {
            **self.admin_site.each_context(request),
            "title": worker.worker_id,
            "opts": self.opts,
            "worker": worker,
            "seen": _seen(worker),
            "held": list(held.order_by("pk")[:MAX_SHOWN]),
            "active": placement.active(worker),
            "told": list(told.order_by("-id")[:MAX_SHOWN]),
            "refused_words": list(words.order_by("-id")[:MAX_SHOWN]),
            "offered": [*offered, "remove"] if request.user.has_perm(ACT) else [],
            "timeout_ms": HEARTBEAT_TIMEOUT_MS,
            "refusal": refusal,
        }
        return TemplateResponse(request, "admin/workloads/registeredworker/one.html", context, status=status)


def _offers(worker: RegisteredWorker, event: str) -> bool:
    """Tell whether the event is a row of the table that changes something."""
    target = BY_EVENT.get((Lifecycle(worker.lifecycle), event))
    return target is not None and target != worker.lifecycle


def _seen(worker: RegisteredWorker) -> str:
    return f"{worker.incarnation_id} {worker.lifecycle}"
