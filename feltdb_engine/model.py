"""The values that cross the engine's boundary: frozen, typed, without behaviour of their own.

Not here: how they are stored (`frame.py`, `view.py`) or decided (`decide.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
JSONObject: TypeAlias = Mapping[str, "JSON"]
MutationKind: TypeAlias = Literal["put", "insert", "update", "merge", "delete"]
OperationKind: TypeAlias = Literal["insert", "update", "delete"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """Who caused a transaction, as the caller knows it. Empty members are left out of the log."""

    subject: str | None = None
    key_id: str | None = None
    request_id: str | None = None
    workload_id: str | None = None
    trigger_id: str | None = None
    traceparent: str | None = None


class Record(NamedTuple):
    """One live record. `key` is `collection:id`; `sequence` is that of its last write; `updated_at_ms` its time."""

    collection: str
    id: str
    version: int
    sequence: int
    updated_at_ms: int
    value: JSONObject

    @property
    def key(self) -> str:
        """The whole key, `collection:id`."""
        return f"{self.collection}:{self.id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutation:
    """One change to one record.

    `put` replaces or creates, `insert` must find nothing, `update` must find something, `merge` is an RFC 7396
    patch on something present, `delete` removes (removing nothing is allowed and makes no operation).
    `value` is the whole object, or the patch for `merge`, and is None for `delete`. `if_version` is the version
    the record must have now (0 = absent).
    """

    kind: MutationKind
    collection: str
    id: str
    value: JSONObject | None = None
    if_version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Precondition:
    """What must hold of one record for a transaction to commit.

    `predicate` is `absent`, `present`, `version` (with `version`) or `equals` (with `pointer`, RFC 6901, and `value`).
    """

    collection: str
    id: str
    predicate: Literal["absent", "present", "version", "equals"]
    version: int | None = None
    pointer: str | None = None
    value: "JSON" = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicate:
    """A condition over a collection that was read, as `where.py` has it; None = the whole collection."""

    collection: str
    where: JSONObject | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadBasis:
    """What was read at `revision`: a token to fence a commit with, and the records asked for, None where absent."""

    token: str
    revision: int
    records: tuple[Record | None, ...]


class Operation(NamedTuple):
    """One committed change, as the feed gives it. A delete carries the value it removed.

    `previous_version` is 0 where no version went before. `content_hash` is lower-case
    hex SHA-256 over instance, sequence, transaction, kind, key, version, value and time.
    """

    sequence: int
    instance_id: str
    transaction_id: str | None
    kind: OperationKind
    collection: str
    id: str
    version: int
    previous_version: int
    value: JSONObject
    content_hash: str
    at_ms: int
    actor: Actor

    @property
    def key(self) -> str:
        """The whole key, `collection:id`."""
        return f"{self.collection}:{self.id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """A place in the feed: everything up to and including `sequence` of that timeline has been read.

    Its text form (`str(cursor)`, `Cursor.parse`) is opaque to clients and safe in a URL.
    """

    instance_id: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.instance_id}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Read the text form back. Raises `ValueError` for anything else."""
        instance_id, separator, digits = text.rpartition("-")
        if not separator or not instance_id or not digits.isascii() or not digits.isdigit() or len(digits) > 20:
            raise ValueError("not a cursor")
        return cls(instance_id=instance_id, sequence=int(digits))


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitResult:
    """What a transaction did. `sequences` are those of its operations, in mutation order (deletes of nothing: none)."""

    transaction_id: str | None
    instance_id: str
    base_revision: int
    revision: int
    sequences: tuple[int, ...]
    versions: tuple[int, ...]  # per mutation, in order: the record's version after it
    at_ms: int
    duplicate: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Records in key order. `next_after` is the id to go on from, None at the end."""

    records: tuple[Record, ...]
    next_after: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryResult:
    """Records that match, in the asked order. `next_cursor` goes on from here, None where `exhausted`."""

    records: tuple[Record, ...]
    next_cursor: str | None
    exhausted: bool
    plan: Mapping[str, "JSON"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """A page of the feed. `head` and `floor` are sequences; a transaction is never split over pages.

    `rewound_from` is the asked sequence where it lay beyond the point at which this store left the cursor's timeline.
    """

    operations: tuple[Operation, ...]
    cursor: Cursor
    head: int
    floor: int
    rewound_from: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionInfo:
    """A collection that has at least one live record, and how many."""

    name: str
    records: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """Compaction keeps every operation after `sequence` until `expires_at_ms` (Unix milliseconds; None = never)."""

    name: str
    sequence: int
    expires_at_ms: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexInfo:
    """A declared index; queries use it once it is `complete`."""

    collection: str
    name: str
    fields: tuple[str, ...]
    complete: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class BreachSample:
    """One record that breaks a rule. `pointer` leads into its value."""

    id: str
    pointer: str
    keyword: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleBreaches:
    """How many records of a collection break one rule (over `fields`, where it has some), and the first of them."""

    collection: str
    rule: Literal["schema", "unique", "reference"]
    fields: tuple[str, ...]
    count: int
    samples: tuple[BreachSample, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContractReport:
    """What stored records would break a contract. Not `complete` where the deadline passed after `checked` records."""

    complete: bool
    checked: int
    breaches: tuple[RuleBreaches, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContractInfo:
    """The contract in force, in its one form: its revision (0 = never one), and the store's sequence it began at.

    `pending` is one that is being activated, or was left so by a process that died: what is written is held to both.
    """

    revision: int
    sequence: int
    contract: JSONObject
    pending: JSONObject | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What the store observes of itself. `storage` is an observation, never a promise.

    `damaged`: only what lies before `byte_offset` is served, read-only. `reasons` are stable codes, empty where all is
    well: the `storage` unless clean, `full` where the next write may find no room, `read-only` where this store was
    opened so. Positions are byte offsets over the whole log; `head`, `floor` and `snapshot` are sequences. What
    happened up to `floor` is no longer in the feed; `snapshot` is where the newest snapshot begins, None where there is
    none.
    """

    storage: Literal["clean", "recovered-incomplete-write", "failed", "rebuilding", "damaged"]
    byte_offset: int | None
    discarded_bytes: int | None
    durable_format: int
    store_id: str
    instance_id: str
    written: int
    durable: int
    head: int
    floor: int
    snapshot: int | None = None
    reasons: tuple[str, ...] = field(default=())
