"""Namespaces whose work nobody may claim just now."""

from django.db import models
from django.db.models import Q

from apps.workloads import limits


class NamespaceHold(models.Model):
    """Claims of the namespace stop while this row is there; `code` and `message` say why."""

    namespace = models.CharField(max_length=63, primary_key=True)
    code = models.CharField(max_length=64)
    message = models.CharField(max_length=limits.MAX_HOLD_CHARS)
    at_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(code=""), name="namespace_hold_has_a_code")]

    def __str__(self) -> str:
        return f"{self.namespace}: {self.code}"
