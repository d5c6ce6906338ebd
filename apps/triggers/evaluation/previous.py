"""The record before an update: from the page of the feed at hand, else from the history of the record.

Not here: who needs it (`matching.py`), and what it means to a predicate (`apps/triggers/contract.py`).
"""

from typing import Any

from apps.triggers.predicate import ABSENT
from feltdb_engine import Store
from feltdb_engine.model import Operation


class PreviousRecords:
    """Reads one page with its operations in order: each is asked about before it is noted."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted: dict[str, Any] = {}

    def note(self, operation: Operation) -> None:
        """Remember what an operation wrote: it is what the record's next one finds."""
        self._noted[operation.key] = operation.value

    def of(self, operation: Operation) -> Any:
        """Return the record before an update, `ABSENT` where history does not reach so far back."""
        found = self._noted.get(operation.key, ABSENT)
        if found is not ABSENT:
            return found
        history = self._store.history(operation.collection, operation.id, limit=2, from_sequence=operation.sequence)
        return history.operations[1].value if len(history.operations) > 1 else ABSENT
