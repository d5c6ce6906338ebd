"""Where a namespace stands: its collections, its revision, its instance and what this server can do."""

from dataclasses import dataclass

from apps.state import cursors
from apps.state.calls import Call
from apps.state.inputs import PageRequest
from apps.state.limits import PAGE_MAX, TRANSACTION_BODY_BYTES, WAIT_MAX_S
from apps.state.stores import store
from feltdb_engine import CollectionInfo, Cursor, Health
from feltdb_engine.limits import TRANSACTION_MAX_MUTATIONS

FEATURES = (
    "transactions",
    "preconditions",
    "idempotent_writes",
    "merge_patch",
    "compare_and_set",
    "queries",
    "change_feed",
    "long_poll",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionPage:
    """Collections in the order of their names, and the cursor to go on from."""

    collections: tuple[CollectionInfo, ...]
    next_cursor: str | None
    revision: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """What a client may want to know of the server and the namespace before it starts."""

    namespace: str
    health: Health
    start: Cursor
    head: Cursor
    features: tuple[str, ...] = FEATURES
    max_page: int = PAGE_MAX
    max_wait_s: int = WAIT_MAX_S
    max_mutations: int = TRANSACTION_MAX_MUTATIONS
    max_transaction_bytes: int = TRANSACTION_BODY_BYTES


def collections(call: Call, wanted: PageRequest) -> CollectionPage:
    """Return a page of the collections that hold records. Raises INVALID_CURSOR."""
    opened = store(call.namespace)
    bound_to = cursors.binding("collections", call.namespace)
    after = cursors.decode(bound_to, wanted.cursor)
    revision = opened.head().sequence
    every = sorted(opened.collections(), key=lambda each: each.name)
    if call.collections is not None:
        every = [each for each in every if each.name in call.collections]
    rest = [each for each in every if after is None or each.name > after]
    page = tuple(rest[: wanted.limit])
    last = page[-1].name if len(rest) > len(page) else None
    return CollectionPage(collections=page, next_cursor=cursors.encode(bound_to, last), revision=revision)


def revision(call: Call) -> Cursor:
    """Return the durable head of the namespace's feed."""
    return store(call.namespace).head()


def runtime(call: Call) -> Runtime:
    """Return what the server can do for this namespace, and where its state stands."""
    opened = store(call.namespace)
    return Runtime(namespace=call.namespace, health=opened.health(), start=opened.start(), head=opened.head())
