"""A process of the crew tests: writes to, reads or compacts a store that others use too, until it is done or killed.

Started again with the journal of one that was killed, it first settles what that one does not know, and goes on reading
the feed where that one stopped.
"""

import random
import time
from pathlib import Path

from feltdb_engine import Cursor, Mutation, Precondition, Record, Retention, Store, errors
from tests.engine.checkers.feed import Gone, Page
from tests.engine.checkers.journal import Journal, entry_of
from tests.engine.checkers.registers import Change, Entry, Read, Write
from tests.engine.hooks import HookedFiles, die_at

COLLECTIONS = ("a", "b")
IDS = ("0", "1", "2", "3")
PINNED = ("reader0",)
KEYS = tuple(f"{name}:{number}" for name in COLLECTIONS for number in IDS)


class Member:
    """What both roles share."""

    def __init__(self, store: Store, journal: Journal, choose: random.Random) -> None:
        self.store = store
        self.journal = journal
        self.choose = choose

    def read(self, keys: tuple[str, ...], how: str) -> tuple[Entry | None, ...]:
        """Read records of one moment, one way or another, and write down what was seen."""
        number = self.journal.begin(Read(keys))
        found: dict[str, Record]
        if how == "get":
            (key,) = keys
            record = self.store.get(key)
            found = {} if record is None else {key: record}
        elif how == "get_many":
            found = {record.key: record for record in self.store.get_many(keys) if record is not None}
        elif how == "page":
            found = {record.key: record for record in self.store.page(keys[0][0]).records}
        else:
            where = {"field": "n", "op": "gte", "value": 0}
            found = {record.key: record for record in self.store.query(keys[0][0], where=where).records}
        seen = tuple(Entry(found[key].version, str(found[key].value["by"])) if key in found else None for key in keys)
        assert set(found) <= set(keys)
        self.journal.end(number, "seen", seen)
        return seen

    def any_read(self) -> None:
        """One read of any kind."""
        how = self.choose.choice(["get", "get", "get_many", "page", "query"])
        if how == "get":
            keys: tuple[str, ...] = (self.choose.choice(KEYS),)
        elif how == "get_many":
            keys = tuple(self.choose.sample(KEYS, self.choose.randint(2, 5)))
        else:
            name = self.choose.choice(COLLECTIONS)
            keys = tuple(f"{name}:{number}" for number in IDS)
        self.read(keys, how)


class Writing(Member):
    """Commits transactions over a few records that all writers want."""

    def __init__(self, store: Store, journal: Journal, choose: random.Random, name: str) -> None:
        super().__init__(store, journal, choose)
        self.name = name
        left = journal.unanswered()
        while left is not None:
            left = None if self.write(left, None) else left

    def round(self) -> None:
        """One transaction, after a look at what it may depend on."""
        keys = self.choose.sample(KEYS, self.choose.choice([1, 1, 2, 3]))
        seen = dict.fromkeys(keys, 0)
        if self.choose.random() < 0.6:
            found = self.read(tuple(keys), "get_many")
            seen = {key: 0 if entry is None else entry.version for key, entry in zip(keys, found, strict=True)}
        requires = ()
        if len(keys) > 1 and self.choose.random() < 0.5:
            required = keys.pop()
            requires = ((required, seen[required]),)
        identity = f"{self.name}-{self.journal.number}"
        changes = tuple(self._change(key, seen[key], identity) for key in keys)
        request = Write(changes, requires, identity)
        deadline = time.monotonic() + self.choose.choice([0.0005, 0.003]) if self.choose.random() < 0.1 else None
        while not self.write(request, deadline):
            deadline = None

    def _change(self, key: str, version: int, identity: str) -> Change:
        kind = self.choose.choice(["put", "put", "put", "insert", "update", "delete"])
        if_version = version if self.choose.random() < 0.4 else None
        return Change(key, kind, None if kind == "delete" else identity, if_version)  # type: ignore[arg-type]

    def write(self, request: Write, deadline: float | None) -> bool:
        """Commit, and write down the answer; False where it says "unknown"."""
        number = self.journal.begin(request)
        mutations = [self._mutation(change) for change in request.changes]
        preconditions = [
            Precondition(collection=key[0], id=key[2:], predicate="version" if version else "absent", version=version)
            for key, version in request.requires
        ]
        digest = str(request.id).encode().ljust(32, b"-")
        try:
            result = self.store.commit(
                mutations,
                preconditions=preconditions,
                transaction_id=request.id,
                payload_hash=digest,
                deadline=deadline,
            )
        except (errors.PreconditionFailed, errors.RecordNotFound):
            self.journal.end(number, "refused")
        except errors.EngineError as refused:
            self.journal.end(number, "nothing" if refused.committed is False else "unknown")
            if refused.committed is not False:
                return False
            assert isinstance(refused, errors.DeadlineExceeded | errors.StoreRebuilding), refused
        else:
            self.journal.end(number, "written", (result.versions, result.duplicate), result.sequences)
        return True

    def _mutation(self, change: Change) -> Mutation:
        value = None
        if change.value is not None:
            size = sum(map(ord, change.value)) % 7 * 300
            value = {"by": change.value, "n": len(change.value), "body": "x" * size}
        return Mutation(
            kind=change.kind, collection=change.key[0], id=change.key[2:], value=value, if_version=change.if_version
        )


class Reading(Member):
    """Reads records and follows the feed. Where it is pinned, what it has not read yet must be kept for it."""

    def __init__(self, store: Store, journal: Journal, choose: random.Random, name: str) -> None:
        super().__init__(store, journal, choose)
        self.name = name
        self.pinned = name in PINNED

    def round(self) -> None:
        """A few reads and a page of the feed."""
        for _ in range(3):
            self.any_read()
        self.follow()

    def follow(self) -> None:
        """The next page of the feed."""
        after = Cursor(instance_id=self.store.instance_id, sequence=self.journal.cursor)
        self.store.wait_for_change(after, 0.005)
        try:
            page = self.store.changes(after, limit=self.choose.choice([1, 2, 10, 1000]))
        except errors.FeedCompacted as gone:
            assert not self.pinned
            self.journal.gone(Gone(after.sequence, gone.details["floor"], gone.details["head"]))
            return
        entries = tuple(map(entry_of, page.operations))
        self.journal.page(Page(after.sequence, entries, page.cursor.sequence, page.head, page.floor))
        if self.pinned:
            self.store.pin(self.name, self.journal.cursor, None)


class Compacting(Member):
    """Keeps as little history as it may, without pause; the view is made smaller now and then."""

    def round(self) -> None:
        """One compaction."""
        try:
            self.store.compact(Retention(age_ms=None, bytes=self.choose.choice([0, 1 << 16, 3 << 16])))
        except (errors.CompactionRunning, errors.StoreRebuilding):
            pass
        time.sleep(0.005)


def live(directory: Path, path: Path, role: str, seed: int, rounds: int, step: str, passes: int) -> None:
    """A member's life: to its end, or until it has passed a step so many times ("" = none) and dies there."""
    journal = Journal(path)
    store = Store.open(directory, create=False, files=HookedFiles(die_at(step, passes)))
    choose = random.Random(seed)
    member: Writing | Reading | Compacting
    if role == "compactor":
        member = Compacting(store, journal, choose)
    else:
        member = (Writing if role == "writer" else Reading)(store, journal, choose, path.name)
    for _ in range(rounds):
        member.round()
    store.close()
