"""Bulk orders carried out in a test's own thread and transaction: what a worker does, without the threads."""

from typing import Any

from apps.workloads import services
from apps.workloads.bulk import program
from apps.workloads.capabilities import Cancelled
from apps.workloads.clock import now_ms
from apps.workloads.commands import ClaimById, Completion
from apps.workloads.models import BulkOrder
from apps.workloads.running import Running


def claimed(order: BulkOrder, worker: str = "w") -> Running:
    """Claim and start the order's work."""
    claim = services.claim(
        ClaimById(
            namespace=order.namespace,
            workload_id=order.workload_id,
            worker_id=worker,
            principal=f"worker:{worker}",
            lease_ms=30_000,
        ),
        now_ms=now_ms(),
    )
    services.start(claim.fence, now_ms=now_ms())
    return Running(claim, 30_000)


def carry_out(order: BulkOrder) -> Any:
    """Run the order's work to its end and return its output, None where it gave up because it was stopped."""
    running = claimed(order)
    try:
        output = program.carry_out(running.claim.input, running)
    except Cancelled:
        services.confirm_cancel(running.claim.fence, now_ms=now_ms())
        return None
    result = Completion(result_id=f"result_{order.workload_id}", output=output)
    services.complete(running.claim.fence, result, now_ms=now_ms())
    return output
