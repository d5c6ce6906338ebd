"""Which worker processes there are, and what was done to keep the instance in order: for people to see."""

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
    """One compaction or backup that was begun: who, when, how it ended, and its report. The newest are kept.

    `report` is the JSON of what was done; `ended_at_ms` is null while it runs, and for ever where its process died.
    """

    class Kind(models.TextChoices):
        """What was done."""

        COMPACTION = "compaction", "compaction"
        BACKUP = "backup", "backup"

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

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(kind__in=["compaction", "backup"]), name="upkeep_kind_known"),
            models.CheckConstraint(
                condition=models.Q(ended_at_ms__isnull=True, outcome="")
                | models.Q(ended_at_ms__isnull=False, outcome__in=["done", "failed"]),
                name="upkeep_outcome_when_ended",
            ),
        ]
        indexes = [models.Index(fields=["kind", "subject", "-id"], name="upkeep_newest")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.subject}"
