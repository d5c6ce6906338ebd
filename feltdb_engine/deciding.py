"""What `decide` sees of an open store, and what is looked at for it before the turn is taken.

Not here: the decision (`decide.py`), the turn (`writer.py`).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from feltdb_engine import contracts, fences, indexes, view
from feltdb_engine.core import Core
from feltdb_engine.decide import Checked, Request, merged
from feltdb_engine.enforcing import Rules
from feltdb_engine.errors import EngineError
from feltdb_engine.moment import Moment
from feltdb_engine.places import frames_after
from feltdb_engine.view import StoredTransaction, Transaction


class Deciding:
    """The state inside the write transaction, as `decide` sees it."""

    __slots__ = ("_core", "_floor", "_txn", "_view", "record")

    def __init__(self, core: Core, txn: Transaction) -> None:
        self._core = core
        of = self._view = core.view
        self._txn = txn
        self._floor: int | None = None
        get, records = txn.get, of.records
        self.record: Callable[[bytes], bytes | None] = lambda key: get(key, None, records)

    def tombstone(self, key: bytes) -> bytes | None:
        entry = self._txn.get(key, None, self._view.tombstones)
        if entry is None or view.ENTRY.unpack_from(entry)[1] > self._forgotten():
            return entry
        return None

    def version_floor(self, collection: bytes) -> int:
        return view.collection(self._txn, collection)[2] if self._forgotten() else 0

    def _forgotten(self) -> int:
        """The sequence up to which tombstones are forgotten: 0 where nothing was ever compacted."""
        if self._floor is None:
            self._floor = view.floor(self._txn).forgotten
        return self._floor

    def transaction(self, digest: bytes) -> StoredTransaction | None:
        return self._view.transaction(self._txn, digest)

    def last_write(self, collection: bytes) -> int:
        return view.collection(self._txn, collection)[1]

    def touched(self, collection: bytes, after: int) -> set[bytes] | None:
        head = view.state(self._txn).sequence
        frames = frames_after(self._core, self._txn, view.floor(self._txn), after)
        return fences.touched(frames, collection, after, head)

    def rules(self) -> Rules | None:
        return contracts.rules(self._view, self._txn)

    def holders(self, number: int, content: bytes) -> Iterable[bytes]:
        return indexes.holders(self._view, self._txn, number, content)


def prepared(core: Core, request: Request, deadline: float, *, final: bool) -> Request:
    """The request with its fences proved and its values checked, before the turn: see `fences.py`, `enforcing.py`."""
    with core.view.read() as txn:
        moment = Moment(core.view, txn)
        proved = fences.prove(moment, request.fences, deadline)
        rules = contracts.rules(core.view, txn)
        values = [] if rules is None else [pair for pair in _values(moment, request) if pair[0] in rules.schemas]
    if rules is None:
        return request._replace(fences=proved)
    known = request.checked.breaches if request.checked and request.checked.identity == rules.identity else {}
    breaches = {pair: known[pair] if pair in known else rules.check(*pair) for pair in values}
    return request._replace(fences=proved, checked=Checked(rules.identity, breaches, final))


def _values(moment: Moment, request: Request) -> Iterator[tuple[bytes, bytes]]:
    """Collection and value of what the request would write as things are."""
    for change in request.changes:
        if change.kind == "merge":
            entry = moment.record(change.collection, change.id)
            if entry is not None:
                with suppress(EngineError):
                    yield change.collection, merged(entry[view.ENTRY_BYTES :], change)
        elif change.kind != "delete":
            yield change.collection, change.value
