"""One registered worker in the console: what it may be given, what it holds, who it was; drain, recover, forget."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from apps.http.pages.acting import ActingAdmin
from apps.http.pages.readonly import numbered
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
class RegisteredWorkerAdmin(ActingAdmin):
    """Registered workers; the list is the page of all workers, our own processes among them."""

    act_permission = ACT
    acts = OUTCOMES

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Go to the page of all workers."""
        return HttpResponseRedirect(reverse("admin:workers"))

    def find(self, object_id: str) -> RegisteredWorker:
        """Return the worker. Raises Http404."""
        return numbered(RegisteredWorker.objects.all(), object_id, "worker")

    def moved_on(self, worker: RegisteredWorker, seen: str) -> str:
        """Tell how the worker stands, where it is another incarnation or in another state than was seen."""
        if seen == _seen(worker):
            return ""
        return (
            "Nothing was done: the worker has changed since the page was shown. It is "
            f"{worker.lifecycle.lower()} now, as {worker.incarnation_id}; look at it and decide again."
        )

    def act(self, request: HttpRequest, worker: RegisteredWorker, action: str, reason: str) -> str:
        """Drain, recover or forget it."""
        run = {"drain": registry.drain, "recover": registry.recover, "remove": registry.remove}[action]
        run(worker.namespace, worker.worker_id, by=acting(request), now_ms=now_ms(), reason=reason)
        return f"{worker.worker_id} {OUTCOMES[action]}."

    def after(self, action: str) -> str:
        """One that is forgotten has no page any more."""
        return reverse("admin:workers") if action == "remove" else ""

    def page_of(
        self, request: HttpRequest, worker: RegisteredWorker, *, refusal: str | None = None, status: int = 200
    ) -> HttpResponse:
        """Return the page of one worker."""
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
