"""What the control plane had seen of a store at earlier moments, ever fewer the older, so that the last change that
database and store both know can be found when they were rolled back apart.

Marks are numbered from 1. Number `n`, which 2**k divides and 2**(k+1) does not, is kept while fewer than
`MARKS_DENSE * 2**k` newer ones were made: so all of the newest, and about as many of each doubling of age.
Not here: when to keep one (`walker.py`), and what becomes of a mismatch (`services/reconciling.py`).
"""

from collections.abc import Iterator

from django.db.models import Max

from apps.triggers.evaluation.position import Seen
from apps.triggers.limits import MARKS_DENSE
from apps.triggers.models import NamespaceMark


def newest(namespace: str) -> int:
    """Return the number of the newest mark, 0 for none."""
    return NamespaceMark.objects.filter(namespace=namespace).aggregate(newest=Max("number"))["newest"] or 0


def keep(namespace: str, number: int, seen: Seen, *, now_ms: int) -> None:
    """Keep what was seen as the next mark, and drop those whose time is over; inside the caller's transaction."""
    NamespaceMark.objects.create(
        namespace=namespace,
        number=number,
        store_id=seen.store_id,
        instance_id=seen.instance_id,
        sequence=seen.sequence,
        content_hash=seen.content_hash,
        at_ms=now_ms,
    )
    over = list(_outlived(number))
    if over:
        NamespaceMark.objects.filter(namespace=namespace, number__in=over).delete()


def _outlived(number: int) -> Iterator[int]:
    """The marks whose time ends with that of this number: at most one of each doubling of age."""
    step = 1
    while number > MARKS_DENSE * step:
        old = number - MARKS_DENSE * step
        if old & -old == step:
            yield old
        step *= 2
