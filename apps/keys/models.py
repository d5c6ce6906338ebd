"""Facts at rest: who operates, which namespaces there are, which keys open them.

Not here: how a key is issued or revoked (`services.py`) and how it is verified (`verify.py`).
"""

from datetime import datetime

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q

from apps.keys import limits

NAMESPACE_PATTERN = r"[a-z0-9][a-z0-9-]{0,62}"


class Operator(AbstractUser):
    """A person who runs this instance through the console. Operators are no API callers: `/v1` knows keys only."""

    class Meta(AbstractUser.Meta):
        verbose_name = "operator"
        verbose_name_plural = "operators"


class Namespace(models.Model):
    """An isolated world of records, work and triggers. Its name is also that of its directory."""

    name = models.CharField(max_length=63, primary_key=True, validators=[RegexValidator(rf"^{NAMESPACE_PATTERN}\Z")])
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=rf"^{NAMESPACE_PATTERN}\Z"), name="namespace_name_form"),
        ]

    def __str__(self) -> str:
        return self.name


class RevocationMark(models.Model):
    """One row, where several hosts may share the database: a number that is new after any rights were taken away."""

    id = models.SmallIntegerField(primary_key=True)
    mark = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="revocation_mark_is_one")]

    def __str__(self) -> str:
        return str(self.mark)


class ApiKey(models.Model):
    """A key: who it acts as, what it may do and where. The secrets that open it are `KeySecret` rows.

    `namespaces` lists names, or `*`; `collections` lists names, or is null for all. A key with a `worker_id`
    is exactly that worker.
    """

    class Kind(models.TextChoices):
        """What a key acts as."""

        SERVICE = "service"
        WORKER = "worker"
        HUMAN = "human"
        AGENT = "agent"

    id = models.CharField(max_length=16, primary_key=True)
    name = models.CharField(max_length=limits.MAX_NAME_CHARS)
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.SERVICE)
    worker_id = models.CharField(max_length=limits.MAX_WORKER_ID_CHARS, blank=True, default="")
    namespaces = models.JSONField()
    scopes = models.JSONField()
    collections = models.JSONField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_index=True)
    created_by = models.CharField(max_length=limits.MAX_ACTOR_CHARS)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=limits.MAX_ACTOR_CHARS, blank=True, default="")
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="key_has_a_name"),
            models.CheckConstraint(condition=Q(worker_id="") | Q(kind="worker"), name="key_worker_id_is_a_workers"),
            models.CheckConstraint(
                condition=Q(kind__in=["service", "worker", "human", "agent"]), name="key_kind_is_known"
            ),
            models.CheckConstraint(
                condition=Q(revoked_at__isnull=True, revoked_by="") | (Q(revoked_at__isnull=False) & ~Q(revoked_by="")),
                name="key_revoked_by_and_when",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    def state(self, now: datetime) -> str:
        """Return revoked, expired (`now` at or after the expiry) or live."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and now >= self.expires_at else "live"


class KeySecret(models.Model):
    """One secret that opens a key, as what is kept of it. The current one has no end; an older one lives out its grace.

    `digest` is the HMAC under the pepper of `pepper_version`. A secret imported from the reference's key file keeps
    what that file had until it is first used: its plain SHA-256 in `digest`, or Argon2's own form in `encoded`. Tokens
    of imported secrets name no key, so these rows are found by `digest`.
    """

    class Scheme(models.TextChoices):
        """What is kept."""

        HMAC = "hmac"
        SHA256 = "sha256"
        ARGON2 = "argon2"

    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="secrets")
    scheme = models.CharField(max_length=8, choices=Scheme.choices, default=Scheme.HMAC)
    digest = models.BinaryField(max_length=32)
    encoded = models.CharField(max_length=limits.MAX_ENCODED_CHARS, blank=True, default="")
    imported = models.BooleanField(default=False)
    pepper_version = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["digest"], condition=Q(imported=True), name="imported_secret_by_digest"),
            models.Index(fields=["-id"], condition=Q(scheme="argon2"), name="secrets_kept_as_argon2"),
            models.Index(fields=["pepper_version"], name="secrets_under_a_pepper"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["key"], condition=Q(ends_at__isnull=True), name="key_has_one_current_secret"
            ),
            models.CheckConstraint(
                condition=Q(ends_at__isnull=True) | Q(ends_at__gte=F("created_at")),
                name="key_secret_ends_after_it_began",
            ),
            models.CheckConstraint(
                condition=Q(scheme="hmac", encoded="", pepper_version__gte=1)
                | Q(scheme="sha256", encoded="", pepper_version=0, imported=True)
                | (Q(scheme="argon2", pepper_version=0, imported=True) & ~Q(encoded="")),
                name="key_secret_is_as_its_scheme_says",
            ),
        ]

    def __str__(self) -> str:
        return f"secret {self.pk} of {self.key_id}"


class PepperRecord(models.Model):
    """A pepper that digests were made under, known by its fingerprint: another pepper of this number is noticed."""

    version = models.PositiveSmallIntegerField(primary_key=True)
    fingerprint = models.CharField(max_length=32)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["version"]
        constraints = [
            models.CheckConstraint(condition=Q(version__gte=1), name="pepper_versions_begin_at_one"),
        ]

    def __str__(self) -> str:
        return f"pepper {self.version}"


class KeyUse(models.Model):
    """A right of a key that was used: which scope, first and last when (to the minute)."""

    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="uses")
    scope = models.CharField(max_length=limits.MAX_SCOPE_CHARS)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["key", "scope"], name="key_use_is_one_row_a_scope"),
            models.CheckConstraint(condition=Q(last_at__gte=F("first_at")), name="key_use_began_before_it_ended"),
        ]

    def __str__(self) -> str:
        return f"{self.scope} by {self.key_id}"


# The tables of grants and of the audit trail live beside their own rules.
from apps.keys.audit.models import AuditEvent  # noqa: E402
from apps.keys.grants.models import IssuedGrant, SpentGrantId  # noqa: E402
from apps.keys.sessions.models import FailedSignIn, HumanSession  # noqa: E402

__all__ = [
    "ApiKey",
    "AuditEvent",
    "FailedSignIn",
    "HumanSession",
    "IssuedGrant",
    "KeySecret",
    "KeyUse",
    "Namespace",
    "Operator",
    "PepperRecord",
    "SpentGrantId",
]
