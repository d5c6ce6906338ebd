"""The console's first page: what is going on in one namespace, and what needs somebody."""

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse

from apps.http.pages.limits import COUNT_CAP
from apps.keys.console import namespace_choice
from apps.operations.services import sampling
from apps.operations.services.overview import overview
from apps.workloads.states import RESTING

VIEW = "workloads.view_workload"


def page(site: AdminSite, request: HttpRequest) -> TemplateResponse:
    """Show the overview; who may not see work sees the navigation only."""
    context = site.each_context(request) | {"title": "Overview"}
    namespace = namespace_choice(request).current
    if namespace and request.user.has_perm(VIEW):
        seen = overview(namespace, now_ms=context["now_ms"], cap=COUNT_CAP)
        context["seen"] = seen
        context["curves"] = sampling.curves(namespace, now_ms=context["now_ms"])
        context["by_state"] = [(state, seen.counts.get(state, 0)) for state in RESTING]
    return TemplateResponse(request, "admin/index.html", context)
