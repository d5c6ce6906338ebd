"""What people do with single changes: put aside, passed over, evaluated once more."""

from django.db import models
from django.db.models import Q

from apps.triggers import limits
from apps.triggers.models.definitions import Trigger

SKIPPED = "SKIPPED"
"""The code of a change that an operator told a trigger to pass over."""


class TriggerQuarantine(models.Model):
    """A change that matched and could not become work, kept until an operator has seen to it.

    `replay` is the replay that came upon it, 0 for none. A change with code `SKIPPED` was passed over by an
    operator's order, before the trigger came to it; it is resolved from the start.
    """

    trigger = models.ForeignKey(Trigger, on_delete=models.CASCADE, related_name="quarantined", db_index=False)
    namespace = models.CharField(max_length=63)
    instance_id = models.CharField(max_length=limits.MAX_INSTANCE_CHARS)
    sequence = models.BigIntegerField()
    replay = models.PositiveIntegerField(default=0)
    record_key = models.CharField(max_length=limits.MAX_KEY_CHARS)
    change_kind = models.CharField(max_length=8)
    content_hash = models.CharField(max_length=64)
    trigger_revision = models.PositiveIntegerField()
    code = models.CharField(max_length=64)
    message = models.CharField(max_length=limits.MAX_REASON_CHARS)
    at_ms = models.BigIntegerField()
    resolved_at_ms = models.BigIntegerField(null=True, blank=True)
    resolved_by = models.CharField(max_length=limits.MAX_TEXT_CHARS, blank=True, default="")
    resolution = models.CharField(max_length=limits.MAX_REASON_CHARS, blank=True, default="")

    class Meta:
        verbose_name_plural = "trigger quarantine"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["trigger", "instance_id", "sequence", "replay"], name="trigger_quarantine_once_per_change"
            ),
            models.CheckConstraint(condition=~Q(code=""), name="trigger_quarantine_has_a_code"),
            models.CheckConstraint(
                condition=Q(resolved_at_ms__isnull=True, resolved_by="")
                | (Q(resolved_at_ms__isnull=False) & ~Q(resolved_by="")),
                name="trigger_quarantine_resolved_by_and_when",
            ),
        ]
        indexes = [
            models.Index(
                fields=["namespace", "id"], condition=Q(resolved_at_ms__isnull=True), name="trigger_quarantine_open"
            ),
            models.Index(fields=["namespace"], condition=Q(code=SKIPPED), name="trigger_quarantine_skipped"),
        ]

    def __str__(self) -> str:
        return f"{self.instance_id}:{self.sequence} of {self.trigger_id}: {self.code}"


class TriggerReplay(models.Model):
    """An order to evaluate the changes after `from_sequence` up to `to_sequence` once more, and how far it has come.

    Work of the trigger's replay `number` has a key of its own (`...:r{number}`), so it is made once more, and once.
    """

    class Outcome(models.TextChoices):
        """How it ended."""

        DONE = "done", "done"
        FAILED = "failed", "failed: its changes cannot be read any more"
        CANCELLED = "cancelled", "cancelled"

    trigger = models.ForeignKey(Trigger, on_delete=models.CASCADE, related_name="replays", db_index=False)
    namespace = models.CharField(max_length=63)
    number = models.PositiveIntegerField()
    from_sequence = models.BigIntegerField()
    to_sequence = models.BigIntegerField()
    position = models.BigIntegerField()
    made = models.BigIntegerField(default=0)
    author = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    reason = models.CharField(max_length=limits.MAX_REASON_CHARS, blank=True, default="")
    created_at_ms = models.BigIntegerField()
    ended_at_ms = models.BigIntegerField(null=True, blank=True)
    outcome = models.CharField(max_length=16, choices=Outcome.choices, blank=True, default="")
    message = models.CharField(max_length=limits.MAX_REASON_CHARS, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["trigger", "number"], name="trigger_replay_number_unique"),
            models.CheckConstraint(condition=Q(number__gte=1), name="trigger_replay_counts_from_one"),
            models.CheckConstraint(
                condition=Q(from_sequence__gte=0)
                & Q(position__gte=models.F("from_sequence"))
                & Q(to_sequence__gte=models.F("position")),
                name="trigger_replay_stays_in_its_range",
            ),
            models.CheckConstraint(
                condition=Q(ended_at_ms__isnull=True, outcome="")
                | Q(ended_at_ms__isnull=False, outcome__in=["done", "failed", "cancelled"]),
                name="trigger_replay_outcome_when_ended",
            ),
            models.CheckConstraint(condition=~Q(author=""), name="trigger_replay_has_an_author"),
        ]
        indexes = [
            models.Index(fields=["namespace", "id"], condition=Q(ended_at_ms__isnull=True), name="trigger_replay_open"),
        ]

    def __str__(self) -> str:
        return f"replay {self.number} of {self.trigger_id}"
