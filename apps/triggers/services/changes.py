"""One change of a namespace's feed, by the name people give it."""

from apps.http.errors import ApiError
from apps.triggers.errors import ReplayFailed, TriggerError
from apps.triggers.evaluation.position import operation_at
from feltdb_engine import Store
from feltdb_engine.errors import CursorAhead, CursorUnknown, EngineError, FeedCompacted
from feltdb_engine.model import Cursor, Operation


def named(text: str, store: Store) -> Cursor:
    """Read the name of a change: `timeline:sequence` as in `source_change_id`, or the sequence alone.

    Raises VALIDATION_ERROR for anything else.
    """
    instance_id, _, digits = text.rpartition(":")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or int(digits) < 1:
        raise ApiError(
            "VALIDATION_ERROR",
            "A change is named by its source_change_id, or by its sequence.",
            details={"field": "change"},
        )
    return Cursor(instance_id=instance_id or store.head().instance_id, sequence=int(digits))


def read(store: Store, place: Cursor) -> Operation:
    """Return the change at a place. Raises NOT_FOUND, FEED_COMPACTED or TRIGGER_STATE_REPLAY_FAILED."""
    try:
        operation = operation_at(store, place)
    except FeedCompacted as error:
        raise TriggerError(
            "FEED_COMPACTED", f"history no longer holds change {place.sequence}", details=error.details
        ) from error
    except (CursorAhead, CursorUnknown):
        operation = None
    except EngineError as error:
        raise ReplayFailed(f"the feed could not be read: {error.message}") from error
    if operation is None or operation.sequence != place.sequence:
        raise TriggerError("NOT_FOUND", f"there is no change {place.sequence} in this namespace's feed")
    return operation
