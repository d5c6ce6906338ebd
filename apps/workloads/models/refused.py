"""What workers said of claims that were not theirs any more, and the fence refused."""

from django.db import models
from django.db.models import Q

from apps.workloads import limits


class RefusedWord(models.Model):
    """One kind of word of one stale claim: who said what under which token, and which token was the current one.

    Words that are said again are counted, not repeated; at most MAX_REFUSED_WORDS rows of one workload are kept.
    """

    namespace = models.CharField(max_length=63)
    workload_id = models.CharField(max_length=40)
    word = models.CharField(max_length=24)
    code = models.CharField(max_length=40)
    worker_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    principal = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    token = models.BigIntegerField()
    current_token = models.BigIntegerField()
    state = models.CharField(max_length=24)
    count = models.IntegerField(default=1)
    first_at_ms = models.BigIntegerField()
    last_at_ms = models.BigIntegerField()

    class Meta:
        verbose_name = "refused word"
        verbose_name_plural = "fence: refused words"
        constraints = [
            models.UniqueConstraint(
                fields=["workload_id", "word", "code", "worker_id", "token"], name="refused_word_once"
            ),
            models.CheckConstraint(condition=Q(count__gte=1), name="refused_word_was_said"),
        ]
        indexes = [
            models.Index(fields=["namespace", "-id"], name="refused_word_newest_first"),
            models.Index(fields=["namespace", "worker_id", "-id"], name="refused_word_of_a_worker"),
        ]

    def __str__(self) -> str:
        return f"{self.word} of {self.workload_id} under {self.token}"
