"""Short forms the engine's tests share."""

from collections.abc import Iterator
from typing import Any

from feltdb_engine import Cursor, Mutation, Operation, Precondition, Store, registry
from feltdb_engine.host import Host


def put(key: str, value: dict[str, Any], *, if_version: int | None = None, kind: Any = "put") -> Mutation:
    """A mutation of `collection:id`."""
    collection, _, record_id = key.partition(":")
    return Mutation(kind=kind, collection=collection, id=record_id, value=value, if_version=if_version)


def delete(key: str, *, if_version: int | None = None) -> Mutation:
    """A delete of `collection:id`."""
    collection, _, record_id = key.partition(":")
    return Mutation(kind="delete", collection=collection, id=record_id, if_version=if_version)


def require(key: str, predicate: Any, **members: Any) -> Precondition:
    """A precondition on `collection:id`."""
    collection, _, record_id = key.partition(":")
    return Precondition(collection=collection, id=record_id, predicate=predicate, **members)


def operations(store: Store, after: Cursor | None = None, *, limit: int = 1000) -> Iterator[Operation]:
    """The whole feed after a cursor."""
    while True:
        page = store.changes(after, limit=limit)
        yield from page.operations
        after = page.cursor
        if after.sequence >= page.head:
            return


def boot(number: int, machine: str = "machine") -> Host:
    """A boot of a machine."""
    return Host(boot_id=bytes([number]) * 16, machine_id=machine)


def vanish(store: Store) -> None:
    """Let go of a store as a killed process does: nothing is forced, written or marked."""
    core, store._held = store._held, None
    store._users = 0
    registry.remove(store)
    if core is not None:
        core.drop()
