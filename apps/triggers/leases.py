"""Who evaluates a namespace just now. A lease saves double work; it guards nothing, so clocks may differ."""

from django.db import IntegrityError, transaction
from django.db.models import Q

from apps.triggers.limits import LEASE_MS
from apps.triggers.models import EvaluatorLease


def take(namespace: str, holder: str, *, now_ms: int) -> bool:
    """Take the lease, or keep it, for `LEASE_MS` from now. False while another holder's has not ended."""
    until = now_ms + LEASE_MS
    free = EvaluatorLease.objects.filter(Q(holder=holder) | Q(expires_at_ms__lte=now_ms), pk=namespace)
    if free.update(holder=holder, expires_at_ms=until):
        return True
    if EvaluatorLease.objects.filter(pk=namespace).exists():
        return False
    try:
        with transaction.atomic():
            EvaluatorLease.objects.create(namespace=namespace, holder=holder, expires_at_ms=until)
    except IntegrityError:
        return False
    return True


def give_back(namespace: str, holder: str) -> None:
    """End the lease now, if it is this holder's."""
    EvaluatorLease.objects.filter(pk=namespace, holder=holder).update(expires_at_ms=0)
