"""Every refusal of the engine, with a stable code.

EngineError
├── InvalidKey            INVALID_KEY
├── InvalidValue          INVALID_VALUE            (pointer)
├── InvalidQuery          INVALID_QUERY            (pointer)
├── InvalidCursor         INVALID_CURSOR
├── InvalidPin            INVALID_PIN              (pointer)
├── PinNotFound           PIN_NOT_FOUND
├── TooManyPins           TOO_MANY_PINS
├── RecordNotFound        RECORD_NOT_FOUND         (pointer)
├── PreconditionFailed    PRECONDITION_FAILED      (pointer, predicate, expected, actual)
├── ValidationFailed      VALIDATION_FAILED        (errors: mutation, rule, pointer, message)
├── ContractInvalid       CONTRACT_INVALID         (pointer)
├── ContractBroken        CONTRACT_BROKEN          (report)
├── ContractConflict      CONTRACT_CONFLICT        (revision)
├── FenceBroken           FENCE_BROKEN             (fence, kind, collection)
├── IdempotencyConflict   IDEMPOTENCY_CONFLICT
├── TransactionTooLarge   TRANSACTION_TOO_LARGE
├── ScanLimitExceeded     SCAN_LIMIT_EXCEEDED      (cursor)
├── FeedCompacted         FEED_COMPACTED           (floor, head)
├── CursorUnknown         CURSOR_UNKNOWN
├── CursorAhead           CURSOR_AHEAD
├── DeadlineExceeded      DEADLINE_EXCEEDED        (committed may be "unknown")
├── ReadOnlyStore         STORE_READ_ONLY
├── StoreNotFound         STORE_NOT_FOUND
├── StoreClosed           STORE_CLOSED
├── StoreForked           STORE_FORKED
├── StoreRebuilding       STORE_REBUILDING
├── FormatUnsupported     FORMAT_UNSUPPORTED
├── CompactionRunning     COMPACTION_RUNNING
├── DestinationExists     DESTINATION_EXISTS
├── BackupInvalid         BACKUP_INVALID           (file)
└── StorageError
    ├── StorageFull         STORAGE_FULL           (not committed; writes resume by themselves)
    ├── StorageWriteFailed  STORAGE_WRITE_FAILED   (not committed)
    ├── StorageFailed       STORAGE_FAILED         (fail-stop until recovery)
    └── LogCorrupt          LOG_CORRUPT            (segment, offset, sequence)
"""

from typing import Any, Literal


class EngineError(Exception):
    """Any refusal. `code` is stable; `details` holds JSON values; `committed` is False or "unknown"."""

    code = "ENGINE_ERROR"

    def __init__(self, message: str, *, committed: Literal[False, "unknown"] = False, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.committed: Literal[False, "unknown"] = committed
        self.details = details


class InvalidKey(EngineError):
    """A collection name or record id that breaks the rules."""

    code = "INVALID_KEY"


class InvalidValue(EngineError):
    """A value JSON cannot say exactly; `details["pointer"]` names the place."""

    code = "INVALID_VALUE"


class InvalidQuery(EngineError):
    """A query that cannot be run; `details["pointer"]` names the place."""

    code = "INVALID_QUERY"


class InvalidCursor(EngineError):
    """A query cursor that was not made by this query."""

    code = "INVALID_CURSOR"


class InvalidPin(EngineError):
    """A pin's name, sequence or time that breaks the rules; `details["pointer"]` names the place."""

    code = "INVALID_PIN"


class PinNotFound(EngineError):
    """No pin of that name is held."""

    code = "PIN_NOT_FOUND"


class TooManyPins(EngineError):
    """The store holds as many pins as it may, and none of them has expired."""

    code = "TOO_MANY_PINS"


class RecordNotFound(EngineError):
    """`update` or `merge` of a record that is not there."""

    code = "RECORD_NOT_FOUND"


class PreconditionFailed(EngineError):
    """A precondition, `if_version` or `insert` did not hold; details: predicate, collection, id, expected, actual.

    `details["pointer"]` names which: `/preconditions/<n>` or `/mutations/<n>`.
    """

    code = "PRECONDITION_FAILED"


class ValidationFailed(EngineError):
    """What the transaction leaves behind would break the contract.

    details["errors"]: up to 20 of `mutation` (its place), `rule` (schema, unique, reference or referenced), `keyword`,
    `pointer` (into the request) and `message`.
    """

    code = "VALIDATION_FAILED"


class ContractInvalid(EngineError):
    """A contract that cannot be served; `details["pointer"]` names the place."""

    code = "CONTRACT_INVALID"


class ContractBroken(EngineError):
    """Stored records break the contract that was to be activated; nothing changed. `report` says which and how."""

    code = "CONTRACT_BROKEN"


class ContractConflict(EngineError):
    """The contract is another one than the caller expected, or another activation came in between."""

    code = "CONTRACT_CONFLICT"


class FenceBroken(EngineError):
    """What was read has changed since. Details: `fence`, its place among those given; `kind`, which part of it broke.

    `record`: collection, id, expected and actual version (0 = absent). `predicate`: its place, collection, and the id
    that shows it where one is known. `timeline`: the store was restored or copied since.
    """

    code = "FENCE_BROKEN"


class IdempotencyConflict(EngineError):
    """The transaction id is known with another payload."""

    code = "IDEMPOTENCY_CONFLICT"


class TransactionTooLarge(EngineError):
    """More mutations or bytes than a transaction may hold."""

    code = "TRANSACTION_TOO_LARGE"


class ScanLimitExceeded(EngineError):
    """The scan budget ran out; details: `cursor` to go on from (None where that cannot be), scanned."""

    code = "SCAN_LIMIT_EXCEEDED"


class FeedCompacted(EngineError):
    """History after this cursor is gone; details: floor, head."""

    code = "FEED_COMPACTED"


class CursorUnknown(EngineError):
    """The cursor is of another timeline."""

    code = "CURSOR_UNKNOWN"


class CursorAhead(EngineError):
    """The cursor lies beyond the head of its own timeline."""

    code = "CURSOR_AHEAD"


class DeadlineExceeded(EngineError):
    """The caller's deadline passed; `committed` says whether the outcome is known. Details of a read: as above."""

    code = "DEADLINE_EXCEEDED"


class ReadOnlyStore(EngineError):
    """A write on a store opened read-only."""

    code = "STORE_READ_ONLY"


class StoreNotFound(EngineError):
    """No store lies at the path, and `create` is false."""

    code = "STORE_NOT_FOUND"


class StoreClosed(EngineError):
    """The store was closed."""

    code = "STORE_CLOSED"


class StoreForked(EngineError):
    """The store was opened by the parent of this process; open it anew."""

    code = "STORE_FORKED"


class StoreRebuilding(EngineError):
    """Another process is rebuilding the view; ask again shortly."""

    code = "STORE_REBUILDING"


class FormatUnsupported(EngineError):
    """The directory, host or file system is not one this engine can serve."""

    code = "FORMAT_UNSUPPORTED"


class CompactionRunning(EngineError):
    """Another compaction of this store is at work."""

    code = "COMPACTION_RUNNING"


class DestinationExists(EngineError):
    """A backup or restore never writes over what is there."""

    code = "DESTINATION_EXISTS"


class BackupInvalid(EngineError):
    """The backup is not what was written, or cannot be restored as asked; details: file, where one is to blame."""

    code = "BACKUP_INVALID"


class StorageError(EngineError):
    """Something went wrong below the engine."""

    code = "STORAGE_ERROR"


class StorageFull(StorageError):
    """No room; nothing was committed and reads go on."""

    code = "STORAGE_FULL"


class StorageWriteFailed(StorageError):
    """The write failed and was undone; nothing was committed."""

    code = "STORAGE_WRITE_FAILED"


class StorageFailed(StorageError):
    """A force failed; the store refuses writes until it is recovered."""

    code = "STORAGE_FAILED"


class LogCorrupt(StorageError):
    """Damage below the durable position; details: segment, offset, sequence."""

    code = "LOG_CORRUPT"
