"""Short forms the engine's tests share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from feltdb_engine import Cursor, Mutation, Operation, Precondition, Retention, Store, registry
from feltdb_engine.host import Host
from tests.engine.hooks import HookedFiles

SMALL_SEGMENT = 1 << 16
NOTHING = Retention(age_ms=0, ids_age_ms=None)
"""Let go of all history; remember every id."""
FULL = {"body": "x" * 9000}
"""A value of which seven fill a small segment."""


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


def contents(store: Store) -> dict[str, tuple[int, int, object]]:
    """Every live record."""
    return {
        record.key: (record.version, record.sequence, record.value)
        for one in store.collections()
        for record in store.page(one.name, limit=1000).records
    }


def reopened(store: Store, number: int) -> Store:
    """The same directory after a crash and a reboot: the view is made again."""
    path = store._core.path
    vanish(store)
    return Store.open(path, create=False, host=boot(number))


def moving(path: Path, hook: Callable[[Store, str], None], **options: object) -> Store:
    """A store whose files call the hook with it."""
    opened: list[Store] = []
    files = HookedFiles(lambda step: hook(opened[0], step) if opened else None)
    opened.append(Store.open(path, segment_bytes=SMALL_SEGMENT, files=files, **options))  # type: ignore[arg-type]
    return opened[0]
