"""Which worker processes there are, what kept the instance in order, how each minute went: for people to see."""

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


class UpkeepRun(models.Model):
    """One compaction, backup or verification that was begun: who, when, how it ended, its report. The newest are kept.

    `report` is the JSON of what was done; `ended_at_ms` is null while it runs, and for ever where its process died.
    `done_bytes` of about `total_bytes` is how far it has come, where it tells.
    """

    class Kind(models.TextChoices):
        """What was done."""

        COMPACTION = "compaction", "compaction"
        BACKUP = "backup", "backup"
        VERIFICATION = "verification", "verification of a backup"

    class Outcome(models.TextChoices):
        """How it ended."""

        DONE = "done", "done"
        FAILED = "failed", "failed"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    subject = models.CharField(max_length=1_000)
    actor = models.CharField(max_length=MAX_NAME_CHARS)
    started_at_ms = models.BigIntegerField()
    ended_at_ms = models.BigIntegerField(null=True, blank=True)
    outcome = models.CharField(max_length=16, choices=Outcome.choices, blank=True, default="")
    message = models.CharField(max_length=1_000, blank=True, default="")
    report = models.TextField(blank=True, default="")
    done_bytes = models.BigIntegerField(default=0)
    total_bytes = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind__in=["compaction", "backup", "verification"]), name="upkeep_kind_known"
            ),
            models.CheckConstraint(
                condition=models.Q(ended_at_ms__isnull=True, outcome="")
                | models.Q(ended_at_ms__isnull=False, outcome__in=["done", "failed"]),
                name="upkeep_outcome_when_ended",
            ),
        ]
        indexes = [models.Index(fields=["kind", "subject", "-id"], name="upkeep_newest")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.subject}"


class Sample(models.Model):
    """How one minute of one namespace went, as a worker process counted it; `minute_ms` is the minute's beginning.

    Attempts that succeeded, attempts that failed (also timed out or lost), work that died, the largest lag of a trigger
    in operations, and the longest wait of work that could run, in milliseconds. `event_pk`: the events counted so far.
    """

    namespace = models.CharField(max_length=63)
    minute_ms = models.BigIntegerField()
    succeeded = models.IntegerField()
    failed = models.IntegerField()
    died = models.IntegerField()
    lag = models.BigIntegerField()
    waited_ms = models.BigIntegerField()
    event_pk = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["namespace", "minute_ms"], name="sample_once_a_minute"),
            models.CheckConstraint(
                condition=models.Q(succeeded__gte=0, failed__gte=0, died__gte=0, lag__gte=0, waited_ms__gte=0),
                name="sample_counts_not_negative",
            ),
        ]
        indexes = [models.Index(fields=["minute_ms"], name="sample_by_minute")]

    def __str__(self) -> str:
        return f"{self.namespace} at {self.minute_ms}"
