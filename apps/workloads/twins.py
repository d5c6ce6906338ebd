"""Work that was asked for again while the first stays: twins, which may do the same thing. For people."""

from apps.workloads.models import Workload
from apps.workloads.services.resubmitting import PROVENANCE
from apps.workloads.states import REQUIRABLE

MAX_TWINS = 20


def of(work: Workload) -> list[Workload]:
    """Return the newest twins that were made of this work."""
    rows = Workload.objects.filter(namespace=work.namespace, trigger=f"{PROVENANCE}{work.workload_id}")
    return list(rows.order_by("-id")[:MAX_TWINS])


def newest(work: Workload) -> int:
    """Return the number of the newest twin, 0 where there is none: what a page has seen."""
    return next((twin.pk for twin in of(work)), 0)


def unseen(work: Workload, seen: int, key: str) -> Workload | None:
    """Return the newest twin that a page which had seen the one numbered `seen` does not know; not the one by `key`."""
    rows = Workload.objects.filter(namespace=work.namespace, trigger=f"{PROVENANCE}{work.workload_id}", pk__gt=seen)
    return rows.exclude(request__idempotency_key=key).order_by("-id").first()


def living(work: Workload) -> Workload | None:
    """Return a twin that has not ended: retried beside it, both would do the work."""
    return next((twin for twin in of(work) if twin.state not in REQUIRABLE), None)
