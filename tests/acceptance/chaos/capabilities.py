"""The program of the chaos proof: it takes a moment and tells its journal of every run, forced to the disk."""

import random
import time
from functools import lru_cache
from typing import Any

from apps.workloads.capabilities import Context, capability
from tests.acceptance.chaos.journal import Journal

SHORT_S, LONG_S = 0.3, 1.0


@lru_cache(maxsize=1)
def _journal() -> Journal:
    return Journal("program")


@capability("chaos.record")
def record(work: Any, context: Context) -> Any:
    """Run once for one change of one trigger."""
    provenance = work["provenance"]
    _journal().write(
        "ran",
        force=True,
        trigger=provenance["trigger_id"],
        change=provenance["source_change_id"],
        workload=context.workload_id,
        token=context.attempt,
        key=work["source"]["key"],
        record=work["record"],
    )
    time.sleep(LONG_S if random.random() < 0.05 else random.uniform(0, SHORT_S))
    return {"change": provenance["source_change_id"]}
