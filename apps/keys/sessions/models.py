"""Sessions of people at rest, as digests; and how often signing in has failed lately."""

from django.db import models
from django.db.models import Q

from apps.keys import limits


class HumanSession(models.Model):
    """A person's short stay. `scopes` and `namespaces` are what was asked for; what holds is never more than the
    person holds at that moment. `person_mark` changes with the password, and ends the session with it.
    """

    id = models.CharField(max_length=16, primary_key=True)
    person = models.ForeignKey("keys.Operator", on_delete=models.CASCADE, related_name="bearer_sessions")
    person_mark = models.CharField(max_length=64)
    digest = models.BinaryField(max_length=32)
    pepper_version = models.PositiveSmallIntegerField()
    scopes = models.JSONField()
    namespaces = models.JSONField()
    created_at_ms = models.BigIntegerField()
    expires_at_ms = models.BigIntegerField()
    ended_at_ms = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["-created_at_ms", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at_ms__gt=models.F("created_at_ms"))
                & Q(expires_at_ms__lte=models.F("created_at_ms") + limits.SESSION_MS),
                name="session_is_short",
            ),
        ]
        indexes = [models.Index(fields=["expires_at_ms"], name="session_by_end")]

    def __str__(self) -> str:
        return f"session {self.id} of {self.person_id}"


class FailedSignIn(models.Model):
    """How often signing in failed within a step of the sliding window, for an address, an account, or both together.

    `window` is the number of the step of `FAILURE_STEP_MS`. An attempt counts while its password is looked at.

    `subject` is a digest, so that what somebody typed as a name, which may be a password, is not kept.
    """

    kind = models.CharField(max_length=8)
    subject = models.CharField(max_length=64)
    window = models.BigIntegerField()
    count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "subject", "window"], name="failed_sign_in_counted_once"),
            models.CheckConstraint(condition=Q(kind__in=["address", "account", "pair"]), name="failed_sign_in_kind"),
        ]
        indexes = [models.Index(fields=["window"], name="failed_sign_in_by_window")]

    def __str__(self) -> str:
        return f"{self.count} failures of one {self.kind}"
