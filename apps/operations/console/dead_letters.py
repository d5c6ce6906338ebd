"""Dead letters: what died, grouped by capability and reason, and what to do about some or all of a group.

The page reads the newest MAX_READ dead letters and says so when there are more. Retrying and discarding go through
the workloads room's services, each work once: what dies again is not taken again.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from apps.http.errors import ApiError
from apps.keys.console import acting, namespace_choice
from apps.workloads import overview
from apps.workloads.by_hand import act
from apps.workloads.clock import now_ms
from apps.workloads.models import Workload
from apps.workloads.states import State

VIEW = "workloads.view_workload"
ACT = "workloads.change_workload"
MAX_READ = 1_000
"""Dead letters read for one page: enough to see what is going on, few enough to stay quick."""

MAX_PREVIEW = 5
"""Dead letters shown of each group on the page of all groups."""

MAX_AT_ONCE = 100
"""Dead letters retried or discarded by one request: each is a transaction of its own."""

_VARIABLE = re.compile(r"\b(?=[\w.:-]*\d)[\w.:-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Dead letters of one capability that died for alike reasons. `works` are newest first."""

    key: str
    capability: str
    reason: str
    works: Sequence[Workload]

    @property
    def newest_ms(self) -> int:
        """Return when the last one died."""
        return max(work.updated_at_ms for work in self.works)

    @property
    def oldest_ms(self) -> int:
        """Return when the first one died."""
        return min(work.updated_at_ms for work in self.works)

    @property
    def varied(self) -> bool:
        """Tell whether the reasons differ in more than the group says."""
        return any(work.last_failure != self.reason for work in self.works)

    @property
    def preview(self) -> Sequence[Workload]:
        """Return the newest few."""
        return self.works[:MAX_PREVIEW]


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What became of one dead letter."""

    workload_id: str
    state: str
    refusal: str = ""


def alike(failure: str) -> str:
    """Return what failures of one kind have in common: the first line, with every word that holds a digit as `#`."""
    lines = failure.strip().splitlines()
    return _VARIABLE.sub("#", lines[0]) if lines else ""


def grouped(works: Sequence[Workload]) -> list[Group]:
    """Group by capability and alike reason, the largest group first."""
    found: dict[tuple[str, str], list[Workload]] = {}
    for work in works:
        found.setdefault((work.definition_id, alike(work.last_failure)), []).append(work)
    groups = [
        Group(
            key=hashlib.sha256(f"{capability}\n{reason}".encode()).hexdigest()[:16],
            capability=capability,
            reason=members[0].last_failure if len(members) == 1 else reason,
            works=members,
        )
        for (capability, reason), members in found.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.works), -group.newest_ms))


def page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show every group, or with `?group=` the whole of one."""
    if not request.user.has_perm(VIEW):
        raise PermissionDenied
    namespace = namespace_choice(request).current
    works = list(overview.dead_letters(namespace)[: MAX_READ + 1])
    groups = grouped(works[:MAX_READ])
    asked = request.GET.get("group", "")
    one = next((group for group in groups if group.key == asked), None)
    context = {
        **site.each_context(request),
        "title": "Dead letters",
        "groups": [one] if one else groups,
        "one": one,
        "gone": bool(asked) and one is None,
        "more": len(works) > MAX_READ,
        "read": min(len(works), MAX_READ),
        "max_at_once": MAX_AT_ONCE,
        "may_act": request.user.has_perm(ACT),
    }
    return TemplateResponse(request, "console/dead_letters.html", context)


def retry(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Ask once more what is to be done to the chosen dead letters, then do it and tell what became of each."""
    if not request.user.has_perm(ACT):
        raise PermissionDenied
    if request.method != "POST":
        return HttpResponseRedirect(reverse("admin:dead_letters"))
    namespace = namespace_choice(request).current
    discard = request.POST.get("act") == "discard"
    chosen = _chosen(request, namespace)
    context = {
        **site.each_context(request),
        "discard": discard,
        "title": "Discard dead letters" if discard else "Retry dead letters",
        "chosen": chosen,
        "reason": request.POST.get("reason", ""),
    }
    if not chosen:
        context["title"] = "Nothing was chosen"
        return TemplateResponse(request, "console/dead_letters_done.html", context | {"done": []}, status=409)
    if "confirmed" not in request.POST:
        return TemplateResponse(request, "console/dead_letters_confirm.html", context)
    done = [_do(request, work, discard=discard) for work in chosen]
    context |= {"done": done, "refused": [each for each in done if each.refusal]}
    context["title"] = _title(done, discard=discard)
    status = 200 if any(not each.refusal for each in done) else 409
    return TemplateResponse(request, "console/dead_letters_done.html", context, status=status)


def _chosen(request: HttpRequest, namespace: str) -> list[Workload]:
    """Return the work the form names, as it stands now: of this namespace, at most MAX_AT_ONCE, in its order."""
    ids = list(dict.fromkeys(request.POST.getlist("id")))
    if request.POST.get("whole"):
        groups = grouped(list(overview.dead_letters(namespace)[:MAX_READ]))
        whole = next((group for group in groups if group.key == request.POST["whole"]), None)
        return list(whole.works[:MAX_AT_ONCE]) if whole else []
    rows = Workload.objects.filter(
        namespace=namespace, workload_id__in=[text for text in ids if "\0" not in text][:MAX_AT_ONCE]
    )
    found = {row.workload_id: row for row in rows}
    return [found[each] for each in ids if each in found]


def _do(request: HttpRequest, work: Workload, *, discard: bool) -> Done:
    if work.state != State.DEAD_LETTER:
        return Done(workload_id=work.workload_id, state=work.state, refusal="it is no dead letter any more")
    reason = request.POST.get("reason", "")
    try:
        after = act("cancel" if discard else "retry", work, by=acting(request), now_ms=now_ms(), reason=reason)
    except ApiError as refused:
        return Done(workload_id=work.workload_id, state=work.state, refusal=refused.message)
    return Done(workload_id=work.workload_id, state=after.state)


def _title(done: Sequence[Done], *, discard: bool) -> str:
    count = sum(not each.refusal for each in done)
    return f"{count} of {len(done)} {'discarded' if discard else 'armed again'}"
