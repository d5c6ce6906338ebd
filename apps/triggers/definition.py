"""A trigger as people write it: read from JSON, checked, given back as JSON. Pure but for the database's types.

The reference's JSON is accepted as it is. What it lacks is optional:

    trigger_id, source_collection, change_kind (one, or a list), predicate,
    target_capability, tenant_id (= the namespace), application_id ("default"), environment ("production"),
    definition_revision ("trigger"), requested_by {"kind", "id"}, authorization_snapshot,
    capability_snapshot ([] = the target capability), connection_scopes, priority, retry_policy, timeouts,
    not_before_at_ms (or the reference's not_before, in seconds), or delay_ms,
    enabled (true), start_from ("now", "beginning", or a cursor), max_lag_operations, depth_limit

Not here: who may define what, and what defining does (`services/`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from apps.triggers import limits
from apps.triggers.contract import CHANGE_KINDS
from apps.triggers.errors import TriggerInvalid
from apps.triggers.models import SUBJECT_KINDS, Trigger
from apps.triggers.policies import read_retry_policy, read_timeouts
from apps.triggers.predicate import PredicateInvalid, parse
from apps.workloads.commands import RetryPolicy, Subject, Timeouts
from feltdb_engine.model import Cursor

NOW: Final = "now"
BEGINNING: Final = "beginning"
DEFAULT_APPLICATION: Final = "default"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """What a trigger says, checked. Sets are sorted tuples, so that equal definitions compare equal."""

    trigger_id: str
    source_collection: str
    change_kinds: tuple[str, ...]
    predicate: Mapping[str, Any] | None
    target_capability: str
    application_id: str
    environment: str
    definition_revision: str
    requested_by: Subject
    authorization_snapshot: Mapping[str, Any] | None
    capability_snapshot: tuple[str, ...]
    connection_scopes: tuple[str, ...]
    priority: int
    retry_policy: RetryPolicy
    timeouts: Timeouts
    not_before_at_ms: int | None
    delay_ms: int | None
    start_from: str
    max_lag_operations: int
    depth_limit: int | None
    enabled: bool

    def as_json(self) -> dict[str, Any]:
        """Return the members as a definition is written and shown."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        del document["change_kinds"]
        document["change_kind"] = self.change_kinds[0] if len(self.change_kinds) == 1 else list(self.change_kinds)
        document["requested_by"] = {"kind": self.requested_by.kind, "id": self.requested_by.id}
        document["capability_snapshot"] = list(self.capability_snapshot)
        document["connection_scopes"] = list(self.connection_scopes)
        document["retry_policy"] = self.retry_policy.as_json()
        document["timeouts"] = self.timeouts.as_json()
        return document


MEMBERS: Final = frozenset({each.name for each in fields(Definition)} - {"change_kinds"}) | {
    "change_kind",
    "tenant_id",
    "not_before",
}


def read(document: Any, *, namespace: str, requested_by: Subject) -> Definition:
    """Read a definition for `namespace`; `requested_by` is who asks where the document does not say.

    Raises `TriggerInvalid` with the member.
    """
    if not isinstance(document, Mapping):
        raise TriggerInvalid("a trigger is an object", field="")
    for name in document:
        if name not in MEMBERS:
            raise TriggerInvalid(f"a trigger has no member {name}", field=str(name))
    reader = _Reader(document)
    tenant = reader.text("tenant_id", default=namespace)
    if tenant != namespace:
        raise TriggerInvalid(f"tenant_id must be the namespace, {namespace}", field="tenant_id")
    not_before, delay = reader.not_before(), reader.integer("delay_ms", low=0, high=limits.MAX_DELAY_MS)
    if not_before is not None and delay is not None:
        raise TriggerInvalid("give an instant (not_before_at_ms) or a delay (delay_ms), not both", field="delay_ms")
    return Definition(
        trigger_id=reader.trigger_id(),
        source_collection=reader.collection(),
        change_kinds=reader.change_kinds(),
        predicate=reader.predicate(),
        target_capability=reader.text("target_capability"),
        application_id=reader.text("application_id", default=DEFAULT_APPLICATION),
        environment=reader.text("environment", default="production"),
        definition_revision=reader.text("definition_revision", default="trigger"),
        requested_by=reader.subject(requested_by),
        authorization_snapshot=reader.snapshot(),
        capability_snapshot=reader.names("capability_snapshot", limit=limits.MAX_CAPABILITIES),
        connection_scopes=reader.names("connection_scopes", limit=limits.MAX_CONNECTION_SCOPES),
        priority=reader.integer("priority", low=-(2**31), high=2**31 - 1) or 0,
        retry_policy=reader.retry_policy(),
        timeouts=reader.timeouts(),
        not_before_at_ms=not_before,
        delay_ms=delay,
        start_from=reader.start_from(),
        max_lag_operations=reader.integer("max_lag_operations", low=1, high=limits.MAX_LAG_OPERATIONS)
        or limits.MAX_LAG_OPERATIONS_DEFAULT,
        depth_limit=reader.integer("depth_limit", low=1, high=limits.MAX_DEPTH),
        enabled=reader.boolean("enabled", default=True),
    )


def of_trigger(trigger: Trigger) -> Definition:
    """Return the definition that a row holds."""
    return Definition(
        trigger_id=trigger.trigger_id,
        source_collection=trigger.source_collection,
        change_kinds=tuple(trigger.change_kinds),
        predicate=trigger.predicate,
        target_capability=trigger.target_capability,
        application_id=trigger.application_id,
        environment=trigger.environment,
        definition_revision=trigger.definition_revision,
        requested_by=Subject(kind=trigger.requested_by_kind, id=trigger.requested_by_id),  # type: ignore[arg-type]
        authorization_snapshot=trigger.authorization_snapshot,
        capability_snapshot=tuple(trigger.capability_snapshot),
        connection_scopes=tuple(trigger.connection_scopes),
        priority=trigger.priority,
        retry_policy=RetryPolicy.from_json(trigger.retry_policy),
        timeouts=Timeouts(**trigger.timeouts),
        not_before_at_ms=trigger.not_before_at_ms,
        delay_ms=trigger.delay_ms,
        start_from=trigger.start_from,
        max_lag_operations=trigger.max_lag_operations,
        depth_limit=trigger.depth_limit,
        enabled=trigger.state not in (Trigger.State.DISABLED, Trigger.State.ARCHIVED),
    )


def write_to(trigger: Trigger, definition: Definition) -> None:
    """Set the row's columns from a definition; not its state, which `enabled` is a word about."""
    for name in (
        "source_collection",
        "predicate",
        "target_capability",
        "application_id",
        "environment",
        "definition_revision",
        "authorization_snapshot",
        "priority",
        "not_before_at_ms",
        "delay_ms",
        "start_from",
        "max_lag_operations",
        "depth_limit",
    ):
        setattr(trigger, name, getattr(definition, name))
    trigger.on_insert = "insert" in definition.change_kinds
    trigger.on_update = "update" in definition.change_kinds
    trigger.on_delete = "delete" in definition.change_kinds
    trigger.requested_by_kind = definition.requested_by.kind
    trigger.requested_by_id = definition.requested_by.id
    trigger.capability_snapshot = list(definition.capability_snapshot)
    trigger.connection_scopes = list(definition.connection_scopes)
    trigger.retry_policy = definition.retry_policy.as_json()
    trigger.timeouts = definition.timeouts.as_json()


class _Reader:
    """Reads one document's members; null counts as not given."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def text(self, name: str, *, default: str | None = None, limit: int = limits.MAX_TEXT_CHARS) -> str:
        value = self.document.get(name)
        if value is None:
            value = default
        if value is None or (isinstance(value, str) and not value.strip()):
            raise TriggerInvalid(f"{name} is required", field=name)
        if not isinstance(value, str) or not value.isprintable() or len(value) > limit:
            raise TriggerInvalid(f"{name} is a text of at most {limit} printable characters", field=name)
        return value

    def trigger_id(self) -> str:
        value = self.text("trigger_id", limit=limits.MAX_ID_CHARS)
        if not _ID.fullmatch(value):
            raise TriggerInvalid(
                f"trigger_id has 1 to {limits.MAX_ID_CHARS} of A-Z a-z 0-9 _ . : - and begins with a letter or digit",
                field="trigger_id",
            )
        return value

    def integer(self, name: str, *, low: int, high: int) -> int | None:
        value = self.document.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise TriggerInvalid(f"{name} is a whole number from {low} to {high}", field=name)
        return value

    def boolean(self, name: str, *, default: bool) -> bool:
        value = self.document.get(name, default)
        if not isinstance(value, bool):
            raise TriggerInvalid(f"{name} is true or false", field=name)
        return value

    def names(self, name: str, *, limit: int) -> tuple[str, ...]:
        value = self.document.get(name) or []
        if not isinstance(value, list) or len(value) > limit:
            raise TriggerInvalid(f"{name} is a list of at most {limit} names", field=name)
        for member in value:
            if not isinstance(member, str) or not member.strip() or len(member) > limits.MAX_TEXT_CHARS:
                raise TriggerInvalid(f"{name} holds texts of 1 to {limits.MAX_TEXT_CHARS} characters", field=name)
        return tuple(sorted(set(value)))

    def collection(self) -> str:
        collection = self.text("source_collection", limit=limits.MAX_COLLECTION_CHARS)
        if collection.startswith("_"):
            raise TriggerInvalid(
                "a trigger cannot watch a system collection: it would feed itself", field="source_collection"
            )
        return collection

    def change_kinds(self) -> tuple[str, ...]:
        value = self.document.get("change_kind")
        kinds = value if isinstance(value, list) else [value]
        if value is None or not kinds:
            raise TriggerInvalid("change_kind is required", field="change_kind")
        if any(kind not in CHANGE_KINDS for kind in kinds):
            raise TriggerInvalid(f"change_kind is one or several of {', '.join(CHANGE_KINDS)}", field="change_kind")
        return tuple(kind for kind in CHANGE_KINDS if kind in kinds)

    def predicate(self) -> Mapping[str, Any] | None:
        value = self.document.get("predicate")
        if value is None:
            return None
        try:
            return parse(value).document
        except PredicateInvalid as error:
            raise TriggerInvalid(error.message, field="predicate", pointer=f"/predicate{error.pointer}") from error

    def subject(self, default: Subject) -> Subject:
        value = self.document.get("requested_by")
        if value is None:
            return default
        if not isinstance(value, Mapping) or set(value) != {"kind", "id"} or value["kind"] not in SUBJECT_KINDS:
            raise TriggerInvalid(
                f"requested_by has a kind ({', '.join(SUBJECT_KINDS)}) and an id", field="requested_by"
            )
        return Subject(kind=value["kind"], id=_Reader(value).text("id"))

    def snapshot(self) -> Mapping[str, Any] | None:
        value = self.document.get("authorization_snapshot")
        if value is not None and (not isinstance(value, Mapping) or not isinstance(value.get("grant"), Mapping)):
            raise TriggerInvalid("authorization_snapshot is a signed grant", field="authorization_snapshot")
        return value

    def not_before(self) -> int | None:
        """The instant in milliseconds; the reference's `not_before` counts seconds."""
        seconds = self.integer("not_before", low=0, high=2**40)
        instant = self.integer("not_before_at_ms", low=0, high=2**50)
        if seconds is not None and instant is not None:
            raise TriggerInvalid("give not_before_at_ms or not_before, not both", field="not_before")
        return instant if seconds is None else seconds * 1000

    def start_from(self) -> str:
        value = self.text("start_from", default=NOW, limit=limits.MAX_CURSOR_CHARS)
        if value not in (NOW, BEGINNING):
            try:
                Cursor.parse(value)
            except ValueError as error:
                raise TriggerInvalid("start_from is now, beginning, or a cursor", field="start_from") from error
        return value

    def retry_policy(self) -> RetryPolicy:
        return read_retry_policy(self.document.get("retry_policy"))

    def timeouts(self) -> Timeouts:
        return read_timeouts(self.document.get("timeouts"))
