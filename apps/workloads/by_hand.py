"""What a person at the console does to work: the service, and the audit event that names them, in one transaction."""

from typing import Literal

from django.db import OperationalError, transaction

from apps.keys.audit.services import record
from apps.keys.principal import Principal
from apps.workloads import services
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Workload

Action = Literal["retry", "cancel"]


def act(action: Action, work: Workload, *, by: Principal, now_ms: int, reason: str = "") -> Workload:
    """Retry or cancel the work as it stands now.

    Raises what the service raises, and WORKLOAD_STORAGE_FAILURE where the database gave up; then nothing was done.
    """
    service = services.retry if action == "retry" else services.cancel
    try:
        with transaction.atomic():
            after = service(work.namespace, work.workload_id, actor=by.label, now_ms=now_ms, reason=reason)
            record(
                by,
                f"workload.{action}",
                target=work.workload_id,
                namespace=work.namespace,
                reason=reason.strip(),
                before={"state": str(work.state)},
                after={"state": str(after.state)},
                at_ms=now_ms,
            )
    except OperationalError as error:
        raise WorkloadError(
            "WORKLOAD_STORAGE_FAILURE", "The database was busy; nothing was done. Try again."
        ) from error
    return after
