"""Words that the fence refused, kept for people: which worker said what under which token, and how often.

Kept outside the refused operation, which writes nothing; a database that cannot take the row changes no answer.
"""

import logging

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import F

from apps.workloads import limits
from apps.workloads.commands import Fence
from apps.workloads.models import RefusedWord, Workload

logger = logging.getLogger("feltdb.fence")

_MAX_TOKEN = 2**63 - 1


def keep(row: Workload, fence: Fence, *, word: str, code: str, now_ms: int) -> None:
    """Count the word among those of this claim, or keep it as the first of its kind."""
    token = max(-_MAX_TOKEN, min(fence.fencing_token, _MAX_TOKEN))
    same = {
        "workload_id": row.workload_id,
        "word": word,
        "code": code,
        "worker_id": fence.worker_id[: limits.MAX_NAME_CHARS],
        "token": token,
    }
    try:
        with transaction.atomic():
            said_before = RefusedWord.objects.filter(**same)
            if said_before.update(count=F("count") + 1, last_at_ms=now_ms, current_token=row.fencing_token):
                return
            if RefusedWord.objects.filter(workload_id=row.workload_id).count() >= limits.MAX_REFUSED_WORDS:
                return
            RefusedWord.objects.create(
                **same,
                namespace=row.namespace,
                principal=fence.principal[: limits.MAX_TEXT_CHARS],
                current_token=row.fencing_token,
                state=row.state,
                first_at_ms=now_ms,
                last_at_ms=now_ms,
            )
    except (DatabaseError, InterfaceError) as error:  # also another process that kept the same word just now
        logger.warning("%s: a refused %s was not kept: %s", row.workload_id, word, error)
