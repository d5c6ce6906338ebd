"""The store against a dictionary and a list: any history of transactions and reopenings gives the same answers."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from feltdb_engine import Mutation, Store, errors
from feltdb_engine.decide import merge_patch
from feltdb_engine.values import same_json
from tests.engine.kit import boot, operations, vanish

keys = st.sampled_from([("a", "1"), ("a", "2"), ("a", "ä"), ("a.b", "1"), ("b", "1:2"), ("b", "z")])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)
values = st.dictionaries(
    st.sampled_from(["n", "m", "deep"]),
    st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(st.just("x"), scalars, max_size=1)),
    max_size=3,
)
kinds = st.sampled_from(["put", "insert", "update", "merge", "delete"])
versions = st.one_of(st.none(), st.none(), st.integers(0, 4))
mutations = st.builds(
    lambda kind, key, value, version: Mutation(
        kind=kind,
        collection=key[0],
        id=key[1],
        value=None if kind == "delete" else value,
        if_version=version,
    ),
    kinds,
    keys,
    values,
    versions,
)


class Refused(Exception):
    """The model refuses the transaction."""


class StoreAgainstModel(RuleBasedStateMachine):
    """One store, small segments; killed, closed, rebooted and read between transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="feltdb-model-", dir=_memory()))
        self.live: dict[tuple[str, str], Any] = {}
        self.versions: dict[tuple[str, str], int] = {}
        self.told: list[tuple[str, str, int, Any]] = []
        self.revisions: list[int] = []  # where a transaction ends
        self.floor = 0
        self.version_floors: dict[str, int] = {}  # of collections with forgotten records
        self.outcomes: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.boots = 1

    @initialize(segment=st.sampled_from([1 << 16, 1 << 20]), durability=st.sampled_from(["commit", "os"]))
    def begin(self, segment: int, durability: Any) -> None:
        self.durability = durability
        self.store = Store.open(self.directory, segment_bytes=segment, durability=durability, host=boot(self.boots))

    def open(self) -> None:
        self.store = Store.open(self.directory, durability=self.durability, host=boot(self.boots))

    @rule(changes=st.lists(mutations, min_size=1, max_size=4, unique_by=lambda one: (one.collection, one.id)))
    def commit(self, changes: list[Mutation]) -> None:
        self._commit(changes, None)

    @rule(
        changes=st.lists(mutations, min_size=1, max_size=2, unique_by=lambda one: (one.collection, one.id)),
        identity=st.sampled_from(["t1", "t2", "t3"]),
    )
    def commit_with_id(self, changes: list[Mutation], identity: str) -> None:
        self._commit(changes, identity)

    def _commit(self, changes: list[Mutation], identity: str | None, fences: Sequence[str] = ()) -> None:
        digest = None if identity is None else identity.encode().ljust(32, b"-")
        named: Any = {"transaction_id": identity, "payload_hash": digest, "fences": fences}
        if identity in self.outcomes:
            again = self.store.commit(changes, **named)
            assert again.duplicate
            assert (again.revision, again.versions) == self.outcomes[identity]
            return
        try:
            live, counted, told, after = self._apply(changes)
        except Refused:
            try:
                self.store.commit(changes, **named)
            except (errors.PreconditionFailed, errors.RecordNotFound):
                return
            raise AssertionError("the store accepted what the model refuses") from None
        result = self.store.commit(changes, **named)
        self.live, self.versions = live, counted
        self.told += told
        self.revisions.append(len(self.told))
        assert not result.duplicate
        assert (result.revision, result.versions) == (len(self.told), after)
        if identity is not None:
            self.outcomes[identity] = (result.revision, result.versions)

    def _apply(self, changes: list[Mutation]) -> tuple[Any, Any, list[Any], tuple[int, ...]]:
        live, counted, told, after = dict(self.live), dict(self.versions), [], []
        for change in changes:
            key = (change.collection, change.id)
            present = key in live
            version = counted.get(key, 0)
            if change.if_version is not None and change.if_version != (version if present else 0):
                raise Refused
            if (change.kind == "insert" and present) or (change.kind in ("update", "merge") and not present):
                raise Refused
            if change.kind == "delete" and not present:
                after.append(version)
                continue
            if key not in counted:
                version = self.version_floors.get(key[0], 0)
            counted[key] = version + 1
            after.append(version + 1)
            if change.kind == "delete":
                told.append(("delete", ":".join(key), version + 1, live.pop(key)))
                continue
            value = merge_patch(live[key], change.value) if change.kind == "merge" else change.value
            live[key] = value
            told.append(("update" if present else "insert", ":".join(key), version + 1, value))
        return live, counted, told, tuple(after)

    @rule()
    def close_and_open(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def be_killed(self) -> None:
        vanish(self.store)
        self.open()

    @rule(closed=st.booleans())
    def reboot(self, closed: bool) -> None:
        if closed:
            self.store.close()
        else:
            vanish(self.store)
        self.boots += 1
        self.open()

    @invariant()
    def reads_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        for key in [*self.live, ("a", "absent")]:
            found = self.store.get(":".join(key))
            if key not in self.live:
                assert found is None
                continue
            assert found is not None and found.version == self.versions[key]
            assert same_json(found.value, self.live[key])
        names = sorted({name for name, _ in self.live})
        assert [one.name for one in self.store.collections()] == names
        for one in self.store.collections():
            ids = sorted((record_id for name, record_id in self.live if name == one.name), key=str.encode)
            assert one.records == len(ids)
            assert [record.id for record in self.store.page(one.name).records] == ids
            assert [record.id for record in self.store.page(one.name, reverse=True).records] == ids[::-1]

    @invariant()
    def the_feed_agrees(self) -> None:
        if not hasattr(self, "store"):
            return
        told = [(one.kind, one.key, one.version, one.value) for one in operations(self.store, limit=3)]
        for mine, its in zip(self.told[self.floor :], told, strict=True):
            assert mine[:3] == its[:3] and same_json(mine[3], its[3])

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        shutil.rmtree(self.directory)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


StoreAgainstModel.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
test_any_history_agrees_with_the_model = StoreAgainstModel.TestCase
