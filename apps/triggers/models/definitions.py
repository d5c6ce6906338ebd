"""What a trigger says, where it stands, and every change of it."""

from django.db import models
from django.db.models import Q

from apps.triggers import limits
from apps.workloads.fields import JSONText

SUBJECT_KINDS = ("human", "service", "workload", "agent", "connection", "worker")
SEQUENCE_NONE = 0


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
