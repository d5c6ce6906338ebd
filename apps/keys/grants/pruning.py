"""Grants that ended long ago are removed, where FELTDB_GRANT_RETENTION_DAYS says so; their ids stay used for ever.

What was delegated goes before what it stands on: it never ends later. Keys and people stay whatever goes. The audit
trail keeps who gave what. Not here: grants that are revoked and have not ended, which are refused as revoked until
then.
"""

from django.conf import settings
from django.db import transaction

from apps.keys.audit.services import record
from apps.keys.clock import now_ms
from apps.keys.grants import limits
from apps.keys.grants.models import IssuedGrant, SpentGrantId, mark_of
from apps.keys.principal import operator

DAY_MS = 24 * 3_600_000
_INSTANCE = operator("retention")


def prune(*, days: int, now_ms: int) -> int:
    """Remove at most `PRUNE_ROWS` grants that ended over `days` days ago, and return how many. Again goes on."""
    cut_ms = now_ms - days * DAY_MS
    due = IssuedGrant.objects.filter(expires_at_ms__lt=cut_ms)
    with transaction.atomic():
        leaves = due.filter(children__isnull=True).only("namespace", "grant_id").order_by("expires_at_ms", "id")
        rows = list(leaves.select_for_update(of=("self",), skip_locked=True)[: limits.PRUNE_ROWS])
        if not rows:
            return 0
        marks = [SpentGrantId(mark=mark_of(row.namespace, row.grant_id)) for row in rows]
        SpentGrantId.objects.bulk_create(marks, ignore_conflicts=True)
        removed, _ = IssuedGrant.objects.filter(pk__in=[row.pk for row in rows]).delete()
        record(
            _INSTANCE,
            "grant.pruned",
            target=f"grants ended before {cut_ms}",
            reason=f"{removed} grants removed",
            at_ms=now_ms,
        )
    return removed


def prune_due() -> bool:
    """Remove some of what is due by the settings; tell whether there was any. Does nothing where grants are kept."""
    days = settings.GRANT_RETENTION_DAYS
    return bool(days) and prune(days=days, now_ms=now_ms()) > 0
