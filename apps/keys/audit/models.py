"""The table of the audit trail. It is added to and read, never changed; what removes old rows is `retention.py`."""

from typing import Any, ClassVar, NoReturn

from django.db import models
from django.db.models import Q

from apps.keys.audit import limits


class AppendOnly(Exception):
    """Somebody tried to change or remove an audit event."""


class AppendOnlyQuerySet(models.QuerySet["AuditEvent"]):
    """Reads and inserts; every way to change or remove is refused."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("audit events are only ever added")

    update = delete = bulk_update = update_or_create = _refuse
    aupdate = adelete = abulk_update = aupdate_or_create = _refuse
    _raw_delete = _update = _refuse

    def bulk_create(self, objs: Any, *args: Any, **kwargs: Any) -> Any:
        """Insert; never over what is there."""
        if kwargs.get("update_conflicts") or kwargs.get("ignore_conflicts"):
            self._refuse()
        return super().bulk_create(objs, *args, **kwargs)


class AuditEvent(models.Model):
    """One thing that somebody did or was refused.

    `count` is 1, or how often the same was refused within the minute up to this row (see `refusals.py`).
    Digests are SHA-256 over the canonical JSON of what was there before and after, empty where that means nothing.
    """

    class Outcome(models.TextChoices):
        """How it ended."""

        DONE = "done"
        DENIED = "denied"
        FAILED = "failed"

    at_ms = models.BigIntegerField()
    namespace = models.CharField(max_length=63, blank=True, default="")
    principal_kind = models.CharField(max_length=16, blank=True, default="")
    subject = models.CharField(max_length=limits.MAX_SUBJECT_CHARS, blank=True, default="")
    key_id = models.CharField(max_length=64, blank=True, default="")
    address = models.CharField(max_length=limits.MAX_ADDRESS_CHARS, blank=True, default="")
    action = models.CharField(max_length=limits.MAX_ACTION_CHARS)
    target = models.CharField(max_length=limits.MAX_TARGET_CHARS, blank=True, default="")
    outcome = models.CharField(max_length=8, choices=Outcome.choices)
    code = models.CharField(max_length=64, blank=True, default="")
    reason = models.CharField(max_length=limits.MAX_REASON_CHARS, blank=True, default="")
    request_id = models.CharField(max_length=limits.MAX_REQUEST_ID_CHARS, blank=True, default="")
    before_digest = models.CharField(max_length=64, blank=True, default="")
    after_digest = models.CharField(max_length=64, blank=True, default="")
    count = models.PositiveIntegerField(default=1)

    objects: ClassVar[models.Manager["AuditEvent"]] = models.Manager.from_queryset(AppendOnlyQuerySet)()

    class Meta:
        ordering = ["-id"]
        base_manager_name = "objects"
        verbose_name = "audit event"
        indexes = [
            models.Index(fields=["namespace", "-id"], name="audit_of_a_namespace"),
            models.Index(fields=["action", "-id"], name="audit_of_an_action"),
            models.Index(fields=["key_id", "-id"], name="audit_of_a_key"),
            models.Index(fields=["subject", "-id"], name="audit_of_a_subject"),
            models.Index(fields=["target", "-id"], name="audit_of_a_target"),
            models.Index(fields=["request_id"], name="audit_of_a_request"),
            models.Index(fields=["at_ms"], name="audit_by_age"),
        ]
        constraints = [
            models.CheckConstraint(condition=~Q(action=""), name="audit_event_has_an_action"),
            models.CheckConstraint(
                condition=Q(outcome__in=["done", "denied", "failed"]), name="audit_outcome_is_known"
            ),
            models.CheckConstraint(condition=Q(count__gte=1), name="audit_count_is_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target} {self.outcome}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert. Raises AppendOnly for an event that is there already."""
        if not self._state.adding:
            raise AppendOnly("audit events are only ever added")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise AppendOnly."""
        raise AppendOnly("audit events are only ever added")
