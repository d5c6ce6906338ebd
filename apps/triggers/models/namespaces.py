"""What the control plane has seen of each namespace's store, and who evaluates it."""

from django.db import models
from django.db.models import Q

from apps.triggers import limits
from apps.triggers.models.definitions import SEQUENCE_NONE


class NamespacePosition(models.Model):
    """What the control plane knows of a namespace's store, so that it notices when the two do not belong together.

    `content_hash` is that of the operation at `sequence`; empty while none was seen. While `mismatch_code` is set no
    trigger of the namespace is evaluated. `definitions` counts the changes of the namespace's triggers: evaluators
    read them again when it has moved. Whoever changes triggers or cursors takes this row first. Up to
    `reconciled_to` the store's changes may bear numbers that lost changes had: their work may need another key.
    """

    namespace = models.CharField(max_length=63, primary_key=True)
    store_id = models.CharField(max_length=limits.MAX_INSTANCE_CHARS)
    instance_id = models.CharField(max_length=limits.MAX_INSTANCE_CHARS)
    sequence = models.BigIntegerField(default=SEQUENCE_NONE)
    content_hash = models.CharField(max_length=64, blank=True, default="")
    definitions = models.BigIntegerField(default=0)
    reconciled_to = models.BigIntegerField(default=SEQUENCE_NONE)
    mismatch_code = models.CharField(max_length=64, blank=True, default="")
    mismatch = models.CharField(max_length=limits.MAX_REASON_CHARS, blank=True, default="")
    updated_at_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(sequence=SEQUENCE_NONE, content_hash="") | (Q(sequence__gt=0) & ~Q(content_hash="")),
                name="position_hash_exactly_when_seen",
            ),
            models.CheckConstraint(condition=~Q(store_id=""), name="position_names_its_store"),
        ]

    def __str__(self) -> str:
        return f"{self.namespace} at {self.instance_id}-{self.sequence}"


class NamespaceMark(models.Model):
    """What the control plane had seen of a namespace's store at some moment, and the hash of that change.

    Marks find the last change that a database and a store, rolled back apart, both know (`evaluation/marks.py`).
    """

    namespace = models.CharField(max_length=63)
    number = models.BigIntegerField()
    store_id = models.CharField(max_length=limits.MAX_INSTANCE_CHARS)
    instance_id = models.CharField(max_length=limits.MAX_INSTANCE_CHARS)
    sequence = models.BigIntegerField()
    content_hash = models.CharField(max_length=64)
    at_ms = models.BigIntegerField()

    class Meta:
        ordering = ["namespace", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["namespace", "number"], name="namespace_mark_number_unique"),
            models.CheckConstraint(
                condition=Q(sequence__gt=0) & ~Q(content_hash=""), name="namespace_mark_is_a_change"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.namespace} had seen {self.instance_id}-{self.sequence}"


class EvaluatorLease(models.Model):
    """Who evaluates a namespace until when. A hint that saves double work; the cursors are the fence."""

    namespace = models.CharField(max_length=63, primary_key=True)
    holder = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    expires_at_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(holder=""), name="evaluator_lease_has_a_holder")]

    def __str__(self) -> str:
        return f"{self.namespace} by {self.holder}"
