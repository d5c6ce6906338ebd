"""Short forms for a transaction that changes one record."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from feltdb_engine import values
from feltdb_engine.model import Actor, CommitResult, JSONObject, Mutation, MutationKind, Precondition


class CommitOptions(TypedDict, total=False):
    """What `Store.commit` takes besides the mutations."""

    preconditions: Sequence[Precondition]
    fences: Sequence[str]
    transaction_id: str | None
    payload_hash: bytes | None
    actor: Actor
    at_ms: int | None
    deadline: float | None


class SingleChanges(ABC):
    """Part of `Store`. A key is `collection:id`; `if_version` is the version the record must have now (0 = absent).

    Each takes the options of `commit`, answers and raises as it does: PreconditionFailed where `if_version` or an
    `insert` does not hold, RecordNotFound where `update` or `merge` find nothing, InvalidKey, InvalidValue, ...
    """

    @abstractmethod
    def commit(self, *args: Any, **named: Any) -> CommitResult:
        """See `Store`."""

    def put(
        self, key: str, value: JSONObject, *, if_version: int | None = None, **options: Unpack[CommitOptions]
    ) -> CommitResult:
        """Replace or create a record."""
        return self._change("put", key, value, if_version, options)

    def insert(self, key: str, value: JSONObject, **options: Unpack[CommitOptions]) -> CommitResult:
        """Create a record that must not be there."""
        return self._change("insert", key, value, None, options)

    def update(
        self, key: str, value: JSONObject, *, if_version: int | None = None, **options: Unpack[CommitOptions]
    ) -> CommitResult:
        """Replace a record that must be there."""
        return self._change("update", key, value, if_version, options)

    def merge(
        self, key: str, patch: JSONObject, *, if_version: int | None = None, **options: Unpack[CommitOptions]
    ) -> CommitResult:
        """Change members of a record that must be there, by an RFC 7396 patch."""
        return self._change("merge", key, patch, if_version, options)

    def delete(self, key: str, *, if_version: int | None = None, **options: Unpack[CommitOptions]) -> CommitResult:
        """Remove a record; removing nothing is allowed and makes no operation."""
        return self._change("delete", key, None, if_version, options)

    def compare_and_set(
        self, key: str, expected_version: int, value: JSONObject, **options: Unpack[CommitOptions]
    ) -> CommitResult:
        """Replace a record that has this version, or create one where it is 0."""
        return self._change("put", key, value, expected_version, options)

    def _change(
        self, kind: MutationKind, key: str, value: JSONObject | None, if_version: int | None, options: CommitOptions
    ) -> CommitResult:
        values.encode_key(key)
        collection, _, record_id = key.partition(":")
        mutation = Mutation(kind=kind, collection=collection, id=record_id, value=value, if_version=if_version)
        return self.commit([mutation], **options)
