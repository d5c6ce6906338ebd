"""Grants at rest: each as it was signed, what it came from, and whether it is revoked."""

import hashlib

import orjson
from django.db import models
from django.db.models import F, Q

from apps.keys.grants import limits
from apps.keys.grants.errors import GrantInvalid
from apps.keys.grants.form import SignedGrant, read_signed


class IssuedGrant(models.Model):
    """One grant this instance signed. Only its revocation is ever written again.

    `document` is the signed grant as JSON; a revocation signs it again with status REVOKED, while `digest` stays that
    of the form in which it was given. `key` is the key whose holder asked, or `person` who asked without one; neither
    for the command line. `shared_as` is set for grants issued without being asked for by name: one for each such text.
    """

    namespace = models.CharField(max_length=63)
    grant_id = models.CharField(max_length=limits.MAX_ID_CHARS)
    application_id = models.CharField(max_length=limits.MAX_ID_CHARS)
    issuer_kind = models.CharField(max_length=16)
    issuer_id = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    subject_kind = models.CharField(max_length=16)
    subject_id = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    key = models.ForeignKey("keys.ApiKey", null=True, blank=True, on_delete=models.PROTECT, related_name="grants")
    person = models.ForeignKey("keys.Operator", null=True, blank=True, on_delete=models.PROTECT, related_name="grants")
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    depth = models.PositiveSmallIntegerField()
    issued_at_ms = models.BigIntegerField()
    expires_at_ms = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    document = models.TextField()
    shared_as = models.CharField(max_length=64, blank=True, default="")
    revoked_at_ms = models.BigIntegerField(null=True, blank=True)
    revoked_by = models.CharField(max_length=limits.MAX_TEXT_CHARS, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        verbose_name = "grant"
        indexes = [
            models.Index(fields=["namespace", "-id"], name="grants_of_a_namespace"),
            models.Index(fields=["namespace", "subject_kind", "subject_id", "-id"], name="grants_for_a_subject"),
            models.Index(fields=["namespace", "issuer_kind", "issuer_id", "-id"], name="grants_by_an_issuer"),
            models.Index(fields=["expires_at_ms", "id"], name="grants_by_their_end"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["namespace", "grant_id"], name="grant_id_is_used_once"),
            models.UniqueConstraint(
                fields=["namespace", "key", "shared_as"],
                condition=~Q(shared_as="") & Q(revoked_at_ms__isnull=True),
                name="grant_shared_once",
            ),
            models.UniqueConstraint(
                fields=["namespace", "person", "shared_as"],
                condition=~Q(shared_as="") & Q(revoked_at_ms__isnull=True),
                name="grant_shared_once_by_a_person",
            ),
            models.CheckConstraint(
                condition=Q(key__isnull=True) | Q(person__isnull=True), name="grant_comes_from_a_key_or_a_person"
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, depth=0)
                | Q(parent__isnull=False, depth__gte=1, depth__lte=limits.MAX_DEPTH),
                name="grant_depth_is_bounded",
            ),
            models.CheckConstraint(condition=Q(expires_at_ms__gt=F("issued_at_ms")), name="grant_ends_after_it_began"),
            models.CheckConstraint(
                condition=Q(revoked_at_ms__isnull=True, revoked_by="")
                | (Q(revoked_at_ms__isnull=False) & ~Q(revoked_by="")),
                name="grant_revoked_by_and_when",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.grant_id} for {self.subject_kind}:{self.subject_id}"

    def signed(self) -> SignedGrant:
        """Return the signed grant. Raises GrantInvalid where somebody changed the row into something else."""
        try:
            return read_signed(orjson.loads(self.document))
        except orjson.JSONDecodeError:
            raise GrantInvalid("the stored grant is damaged") from None


class SpentGrantId(models.Model):
    """An id whose grant had ended and was removed. It stays used: what names it is refused, and none is issued anew.

    `mark` is the first half of SHA-256 over namespace, NUL and id, in hex.
    """

    mark = models.CharField(max_length=32, primary_key=True)

    def __str__(self) -> str:
        return f"spent {self.mark}"


def mark_of(namespace: str, grant_id: str) -> str:
    """Return what is kept of an id that is spent."""
    return hashlib.sha256(f"{namespace}\0{grant_id}".encode()).hexdigest()[:32]
