"""Which worker processes there are. Work itself is kept alive by leases; these rows are only for people to see."""

from django.db import models

MAX_NAME_CHARS = 200


class WorkerProcess(models.Model):
    """A worker process that has started and not ended in good order. Instants are milliseconds since 1970.

    `host` is the machine's id of this boot and `started_ticks` the process's start as the kernel counts it: together
    with `pid` they tell a dead process from a living one of the same number.
    """

    worker_id = models.CharField(max_length=MAX_NAME_CHARS, primary_key=True)
    host = models.CharField(max_length=MAX_NAME_CHARS)
    host_name = models.CharField(max_length=MAX_NAME_CHARS)
    pid = models.IntegerField()
    started_ticks = models.BigIntegerField()
    slots = models.IntegerField()
    namespaces = models.CharField(max_length=2_000, blank=True, default="")
    started_at_ms = models.BigIntegerField()
    seen_at_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~models.Q(worker_id=""), name="worker_process_is_named"),
            models.CheckConstraint(condition=models.Q(slots__gte=1), name="worker_process_has_slots"),
            models.CheckConstraint(
                condition=models.Q(seen_at_ms__gte=models.F("started_at_ms")), name="worker_process_seen_after_start"
            ),
        ]

    def __str__(self) -> str:
        return self.worker_id
