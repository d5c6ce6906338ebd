"""State triggers at rest. What a trigger says is one wide row; where it stands is a narrow one beside it.

    Trigger            what to watch, what to run, whether it is evaluated; changed only by people
    TriggerCursor      how far the feed has been evaluated for it; moved by every batch
    TriggerRevision    every change of a trigger: who, when, what became of which field
    TriggerQuarantine  a change that matched and could not become work, or that an operator told it to pass over
    TriggerReplay      an order to evaluate old changes once more
    NamespacePosition  the farthest change of a namespace that the control plane has seen, and its hash
    NamespaceMark      what it had seen at earlier moments, ever fewer the older
    EvaluatorLease     which evaluator works a namespace just now: saves work, guards nothing

Instants are milliseconds since 1970 by the server's clock. Who moves rows: `services/` and `evaluation/`.
"""

from django.db import models
from django.db.models import Q

from apps.triggers import limits
from apps.workloads.fields import JSONText

SUBJECT_KINDS = ("human", "service", "workload", "agent", "connection", "worker")
SEQUENCE_NONE = 0
SKIPPED = "SKIPPED"
"""The code of a change that an operator told a trigger to pass over."""


class Trigger(models.Model):
    """A standing order: when such a change happens, run that capability.

    `revision` grows with every change of this row, of its definition and of its state alike; work records it.
    `reason_code` and `reason` say why the trigger is paused or blocked. An archived trigger keeps its id, its cursor
    and its keys: defining the id again revives it. `grant_id` is the grant its work runs under: the one named by
    `authorization_snapshot`, or that of whoever defined it last; "" is the instance's own authority.
    """

    class State(models.TextChoices):
        """Whether changes are evaluated: only for `active`."""

        ACTIVE = "active", "active"
        PAUSED = "paused", "paused: keeps its cursor and catches up"
        DISABLED = "disabled", "disabled: lets changes pass"
        BLOCKED = "blocked", "blocked: stands until an operator acts"
        ARCHIVED = "archived", "archived: deleted, its id kept"

    namespace = models.CharField(max_length=63)
    trigger_id = models.CharField(max_length=limits.MAX_ID_CHARS)

    source_collection = models.CharField(max_length=limits.MAX_COLLECTION_CHARS)
    on_insert = models.BooleanField(default=False)
    on_update = models.BooleanField(default=False)
    on_delete = models.BooleanField(default=False)
    predicate = JSONText(null=True, blank=True)

    target_capability = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    application_id = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    environment = models.CharField(max_length=limits.MAX_TEXT_CHARS, default="production")
    definition_revision = models.CharField(max_length=limits.MAX_TEXT_CHARS, default="trigger")
    requested_by_kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in SUBJECT_KINDS])
    requested_by_id = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    authorization_snapshot = JSONText(null=True, blank=True)
    grant_id = models.CharField(max_length=limits.MAX_ID_CHARS, blank=True, default="")
    capability_snapshot = JSONText(default=list)
    connection_scopes = JSONText(default=list)
    priority = models.IntegerField(default=0)
    retry_policy = JSONText(null=True, blank=True)
    timeouts = JSONText(null=True, blank=True)
    not_before_at_ms = models.BigIntegerField(null=True, blank=True)
    delay_ms = models.BigIntegerField(null=True, blank=True)

    start_from = models.CharField(max_length=limits.MAX_CURSOR_CHARS, default="now")
    max_lag_operations = models.BigIntegerField(default=limits.MAX_LAG_OPERATIONS_DEFAULT)
    depth_limit = models.PositiveSmallIntegerField(null=True, blank=True)

    state = models.CharField(max_length=16, choices=State.choices, default=State.ACTIVE)
    reason_code = models.CharField(max_length=64, blank=True, default="")
    reason = models.CharField(max_length=limits.MAX_REASON_CHARS, blank=True, default="")
    resumes_at_ms = models.BigIntegerField(null=True, blank=True)
    revision = models.PositiveIntegerField(default=1)
    created_at_ms = models.BigIntegerField()
    updated_at_ms = models.BigIntegerField()

    class Meta:
        ordering = ["namespace", "trigger_id"]
        constraints = [
            models.UniqueConstraint(fields=["namespace", "trigger_id"], name="trigger_id_unique_in_namespace"),
            models.CheckConstraint(
                condition=~Q(trigger_id="")
                & ~Q(source_collection="")
                & ~Q(target_capability="")
                & ~Q(application_id="")
                & ~Q(namespace="")
                & ~Q(requested_by_id=""),
                name="trigger_is_named",
            ),
            models.CheckConstraint(
                condition=Q(on_insert=True) | Q(on_update=True) | Q(on_delete=True), name="trigger_watches_some_kind"
            ),
            models.CheckConstraint(
                condition=~Q(source_collection__startswith="_"), name="trigger_watches_no_system_collection"
            ),
            models.CheckConstraint(condition=Q(requested_by_kind__in=SUBJECT_KINDS), name="trigger_requester_is_known"),
            models.CheckConstraint(
                condition=Q(not_before_at_ms__isnull=True) | Q(delay_ms__isnull=True), name="trigger_waits_one_way"
            ),
            models.CheckConstraint(
                condition=Q(delay_ms__isnull=True) | Q(delay_ms__gte=0, delay_ms__lte=limits.MAX_DELAY_MS),
                name="trigger_delay_is_bounded",
            ),
            models.CheckConstraint(
                condition=Q(max_lag_operations__gte=1, max_lag_operations__lte=limits.MAX_LAG_OPERATIONS),
                name="trigger_lag_is_bounded",
            ),
            models.CheckConstraint(
                condition=Q(depth_limit__isnull=True) | Q(depth_limit__gte=1, depth_limit__lte=limits.MAX_DEPTH),
                name="trigger_depth_is_bounded",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["active", "paused", "disabled", "blocked", "archived"]),
                name="trigger_state_is_known",
            ),
            models.CheckConstraint(
                condition=(Q(state__in=["paused", "blocked"]) & ~Q(reason_code=""))
                | (Q(state__in=["active", "disabled", "archived"], reason_code="", reason="")),
                name="trigger_reason_exactly_when_held_up",
            ),
            models.CheckConstraint(
                condition=Q(resumes_at_ms__isnull=True) | Q(state="paused"), name="trigger_resumes_only_when_paused"
            ),
            models.CheckConstraint(condition=Q(revision__gte=1), name="trigger_revision_counts_from_one"),
        ]
        indexes = [
            models.Index(
                fields=["resumes_at_ms"], condition=Q(resumes_at_ms__isnull=False), name="trigger_resumes_next"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.trigger_id}"

    @property
    def change_kinds(self) -> list[str]:
        """The kinds of change it watches, in the order insert, update, delete."""
        watched = {"insert": self.on_insert, "update": self.on_update, "delete": self.on_delete}
        return [kind for kind, on in watched.items() if on]


class TriggerCursor(models.Model):
    """Everything up to and including `sequence` of that timeline has been evaluated for the trigger.

    `revision` and `live` repeat the trigger's revision and whether it is active: a batch moves the cursor only where
    all four are as it read them, in one update of this narrow row, so that a change of the trigger and a batch of its
    old self can never both hold.
    """

    trigger = models.OneToOneField(Trigger, on_delete=models.CASCADE, primary_key=True, related_name="cursor")
    namespace = models.CharField(max_length=63)
    instance_id = models.CharField(max_length=limits.MAX_INSTANCE_CHARS)
    sequence = models.BigIntegerField()
    revision = models.PositiveIntegerField()
    live = models.BooleanField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(sequence__gte=0), name="trigger_cursor_not_negative"),
            models.CheckConstraint(condition=~Q(instance_id=""), name="trigger_cursor_names_its_timeline"),
        ]
        indexes = [
            models.Index(fields=["namespace"], condition=Q(live=True), name="trigger_cursor_live"),
        ]

    def __str__(self) -> str:
        return f"{self.instance_id}-{self.sequence}"


class TriggerRevision(models.Model):
    """One change of a trigger. `diff` maps each changed member to `[before, after]`, `definition` is all after it."""

    class Action(models.TextChoices):
        """What was done."""

        DEFINE = "define"
        REVISE = "revise"
        REVIVE = "revive"
        ENABLE = "enable"
        DISABLE = "disable"
        PAUSE = "pause"
        RESUME = "resume"
        BLOCK = "block"
        REBASE = "rebase"
        ARCHIVE = "archive"

    trigger = models.ForeignKey(Trigger, on_delete=models.CASCADE, related_name="revisions", db_index=False)
    namespace = models.CharField(max_length=63)
    revision = models.PositiveIntegerField()
    action = models.CharField(max_length=16, choices=Action.choices)
    author = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    reason = models.CharField(max_length=limits.MAX_REASON_CHARS, blank=True, default="")
    at_ms = models.BigIntegerField()
    diff = JSONText()
    definition = JSONText()

    class Meta:
        ordering = ["trigger", "revision"]
        constraints = [
            models.UniqueConstraint(fields=["trigger", "revision"], name="trigger_revision_unique"),
            models.CheckConstraint(condition=~Q(author=""), name="trigger_revision_has_an_author"),
            models.CheckConstraint(
                condition=Q(
                    action__in=[
                        "define",
                        "revise",
                        "revive",
                        "enable",
                        "disable",
                        "pause",
                        "resume",
                        "block",
                        "rebase",
                        "archive",
                    ]
                ),
                name="trigger_revision_action_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"revision {self.revision} of {self.trigger_id}: {self.action}"


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
