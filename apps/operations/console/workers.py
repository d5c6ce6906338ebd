"""Workers in the console: our own processes and those that registered, what each holds, and whether it lives."""

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from apps.keys.console import namespace_choice
from apps.operations.services import liveness
from apps.workloads import capabilities
from apps.workloads.clock import now_ms
from apps.workloads.services import placement, registry

VIEW = "workloads.view_registeredworker"
MAX_SHOWN = 200


def page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """List every worker that is known, and names that hold work without having registered."""
    if not request.user.has_perm(VIEW):
        raise PermissionDenied
    namespace = namespace_choice(request).current
    held = placement.actives(namespace)
    registered, more = registry.page(namespace, limit=MAX_SHOWN)
    processes = liveness.standings(now=now_ms())
    known = {each.worker_id for each in registered} | {each.process.worker_id for each in processes}
    context = {
        **site.each_context(request),
        "title": "Workers",
        "processes": [(each, held.get(each.process.worker_id, 0)) for each in processes[:MAX_SHOWN]],
        "registered": [(each, held.get(each.worker_id, 0)) for each in registered],
        "more": more is not None or len(processes) > MAX_SHOWN,
        "others": sorted((name, count) for name, count in held.items() if name not in known)[:MAX_SHOWN],
        "capabilities": sorted(capabilities.names()),
        "silent_ms": liveness.SILENT_MS,
    }
    return TemplateResponse(request, "console/workers.html", context)
