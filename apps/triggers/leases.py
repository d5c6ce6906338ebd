"""Who evaluates a namespace just now. A lease saves double work; it guards nothing, so clocks may differ.

A holder is `host:pid:name`. The lease of a process of this host that is gone is free at once.
"""

import os
import socket

from django.db import IntegrityError, transaction
from django.db.models import Q

from apps.triggers.limits import LEASE_MS
from apps.triggers.models import EvaluatorLease


def holder_here(name: str) -> str:
    """Return the name of a holder in this process."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{name}"


def take(namespace: str, holder: str, *, now_ms: int) -> bool:
    """Take the lease, or keep it, for `LEASE_MS` from now. False while another holder's has not ended."""
    until = now_ms + LEASE_MS
    lease = EvaluatorLease.objects.filter(pk=namespace)
    # One that ends later than any taken now could was taken before the clock was set back: nobody waits for it.
    over = Q(expires_at_ms__lte=now_ms) | Q(expires_at_ms__gt=until + LEASE_MS)
    if lease.filter(Q(holder=holder) | over).update(holder=holder, expires_at_ms=until):
        return True
    other = lease.values_list("holder", flat=True).first()
    if other is not None:
        return _is_gone(other) and lease.filter(holder=other).update(holder=holder, expires_at_ms=until) == 1
    try:
        with transaction.atomic():
            EvaluatorLease.objects.create(namespace=namespace, holder=holder, expires_at_ms=until)
    except IntegrityError:
        return False
    return True


def give_back(namespace: str, holder: str) -> None:
    """End the lease now, if it is this holder's."""
    EvaluatorLease.objects.filter(pk=namespace, holder=holder).update(expires_at_ms=0)


def _is_gone(holder: str) -> bool:
    """Tell whether the holder was a process of this host that no longer runs."""
    host, _, rest = holder.partition(":")
    pid = rest.partition(":")[0]
    if host != socket.gethostname()[:64] or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
