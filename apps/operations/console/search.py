"""One box that finds a thing by its id, whatever kind of thing it is."""

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from apps.keys.console import namespace_choice
from apps.operations.services.finding import find

MAX_TEXT_CHARS = 700


def page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Go straight to the only thing found; list several; say what can be found where there is none."""
    text = request.GET.get("q", "").strip()[:MAX_TEXT_CHARS].replace("\0", "")
    found = (
        [each for each in find(text, namespace_choice(request).current) if request.user.has_perm(each.permission)]
        if text
        else []
    )
    if len(found) == 1:
        return HttpResponseRedirect(found[0].url)
    context = {
        **site.each_context(request),
        "title": "Find by id",
        "find_text": text,
        "found": found,
    }
    return TemplateResponse(request, "console/search.html", context)
