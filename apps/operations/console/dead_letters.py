"""Dead letters: what died, grouped by capability and reason, and what to do about some or all of a group.

The page reads the newest MAX_READ dead letters and says so when there are more. Retrying and discarding are bulk
actions (`apps.workloads.bulk`): of a group they take all that are alike, also those beyond what the page reads.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from apps.keys.console import namespace_choice
from apps.workloads import overview
from apps.workloads.models import Workload
from apps.workloads.reasons import alike

VIEW = "workloads.view_workload"
ACT = "workloads.change_workload"
MAX_READ = 1_000
"""Dead letters read for one page: enough to see what is going on, few enough to stay quick."""

MAX_PREVIEW = 5
"""Dead letters shown of each group on the page of all groups."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Dead letters of one capability that died for alike reasons. `works` are newest first."""

    key: str
    capability: str
    like: str
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


def grouped(works: Sequence[Workload]) -> list[Group]:
    """Group by capability and alike reason, the largest group first."""
    found: dict[tuple[str, str], list[Workload]] = {}
    for work in works:
        found.setdefault((work.definition_id, alike(work.last_failure)), []).append(work)
    groups = [
        Group(
            key=hashlib.sha256(f"{capability}\n{reason}".encode()).hexdigest()[:16],
            capability=capability,
            like=reason,
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
        "may_act": request.user.has_perm(ACT),
    }
    return TemplateResponse(request, "console/dead_letters.html", context)
