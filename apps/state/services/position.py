"""Where a namespace stands: its collections, its revision, its instance and what this server can do."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from apps.state import cursors
from apps.state.calls import Call
from apps.state.inputs import PageRequest
from apps.state.limits import PAGE_MAX, TRANSACTION_BODY_BYTES, WAIT_MAX_S
from apps.state.stores import store
from feltdb_engine import Cursor, Health, IndexInfo, JSONObject
from feltdb_engine.limits import TRANSACTION_MAX_MUTATIONS

FEATURES = (
    "transactions",
    "preconditions",
    "idempotent_writes",
    "merge_patch",
    "compare_and_set",
    "queries",
    "count",
    "search",
    "as_of",
    "fences",
    "contracts",
    "export",
    "import",
    "indexes",
    "history",
    "change_feed",
    "long_poll",
    "event_stream",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """A collection that holds records or for which something is declared."""

    name: str
    records: int
    indexes: tuple[IndexInfo, ...]
    contract: JSONObject | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionPage:
    """Collections in the order of their names, and the cursor to go on from."""

    collections: tuple[Collection, ...]
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
    streams: int = settings.FEED_MAX_STREAMS
    stream_life_s: int = settings.STREAM_MAX_LIFE_S
    rate: int = settings.RATE_LIMIT


def collections(call: Call, wanted: PageRequest) -> CollectionPage:
    """Return a page of the collections that hold records, have indexes or a contract. Raises INVALID_CURSOR."""
    opened = store(call.namespace)
    bound_to = cursors.binding("collections", call.namespace)
    after = cursors.decode(bound_to, wanted.cursor)
    revision = opened.head().sequence
    counts = {each.name: each.records for each in opened.collections()}
    indexes = opened.indexes()
    contract: Any = opened.contract().contract["collections"]
    names = sorted(counts.keys() | {each.collection for each in indexes} | contract.keys())
    rest = [
        name
        for name in names
        if (after is None or name > after) and (call.collections is None or name in call.collections)
    ]
    page = tuple(
        Collection(
            name=name,
            records=counts.get(name, 0),
            indexes=tuple(each for each in indexes if each.collection == name),
            contract=contract.get(name),
        )
        for name in rest[: wanted.limit]
    )
    last = page[-1].name if len(rest) > len(page) else None
    return CollectionPage(collections=page, next_cursor=cursors.encode(bound_to, last), revision=revision)


def revision(call: Call) -> Cursor:
    """Return the durable head of the namespace's feed."""
    return store(call.namespace).head()


def runtime(call: Call) -> Runtime:
    """Return what the server can do for this namespace, and where its state stands."""
    opened = store(call.namespace)
    return Runtime(namespace=call.namespace, health=opened.health(), start=opened.start(), head=opened.head())
