"""The store against its model, wider: indexes, queries, read bases, pins, compaction, history, rebuilt views, backups.

The conditions of queries are judged by a few lines of this file, not by the engine's.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, multiple, precondition, rule

from feltdb_engine import Mutation, Predicate, Retention, errors
from feltdb_engine.backup import restore
from feltdb_engine.values import same_json
from tests.engine.test_model import StoreAgainstModel, keys, mutations, scalars, values

FIELDS = ("n", "m", "deep.x")
fields = st.sampled_from(FIELDS)
collections = st.sampled_from(["a", "a.b", "b"])
operands = st.one_of(scalars, st.integers(-2, 2))
terms = st.one_of(
    st.builds(
        lambda field, op, value: {"field": field, "op": op, "value": value},
        fields,
        st.sampled_from(["eq", "ne"]),
        operands,
    ),
    st.builds(lambda field, value: {"field": field, "op": "exists", "value": value}, fields, st.booleans()),
    st.builds(
        lambda field, value: {"field": field, "op": "in", "value": value}, fields, st.lists(operands, max_size=3)
    ),
    st.builds(
        lambda field, op, value: {"field": field, "op": op, "value": value},
        fields,
        st.sampled_from(["lt", "lte", "gt", "gte"]),
        st.one_of(st.integers(-2, 2), st.floats(-2, 2), st.text("aä\U0001f600", max_size=2)),
    ),
)
wheres = st.one_of(
    st.none(),
    terms,
    st.builds(lambda branches: {"all": branches}, st.lists(terms, min_size=1, max_size=3)),
    st.builds(lambda branches: {"any": branches}, st.lists(terms, min_size=1, max_size=2)),
    st.builds(lambda term: {"not": term}, terms),
)
puts = st.lists(
    st.builds(
        lambda key, value: Mutation(kind="put", collection=key[0], id=key[1], value=value),
        keys,
        st.one_of(values, st.builds(lambda n: {"n": n}, st.integers(-2, 2))),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda one: (one.collection, one.id),
)
_NOTHING = object()


def found_at(value: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(value, dict) or step not in value:
            return _NOTHING
        value = value[step]
    return value


def holds(where: Any, value: Any) -> bool:
    """Whether a condition is true of a value, by the book (docs/engine.md)."""
    if where is None:
        return True
    if "all" in where:
        return all(holds(one, value) for one in where["all"])
    if "any" in where:
        return any(holds(one, value) for one in where["any"])
    if "not" in where:
        return not holds(where["not"], value)
    found, op, operand = found_at(value, where["field"]), where["op"], where["value"]
    if op == "exists":
        return (found is not _NOTHING) is operand
    if op in ("eq", "ne"):
        return same_json(found, operand) is (op == "eq")
    if op == "in":
        return any(same_json(found, one) for one in operand)
    comparable = (type(found) is str) if type(operand) is str else (type(found) in (int, float))
    if not comparable:
        return False
    return {"lt": found < operand, "lte": found <= operand, "gt": found > operand, "gte": found >= operand}[op]


class WiderModel(StoreAgainstModel):
    """All that the narrower model does, and more in between."""

    bases = Bundle("bases")

    def __init__(self) -> None:
        super().__init__()
        self.declared: set[tuple[str, tuple[str, ...]]] = set()
        self.pinned: dict[str, int] = {}
        self.lives = 0

    @initialize(
        segment=st.sampled_from([1 << 16, 1 << 20]),
        durability=st.sampled_from(["commit", "os"]),
        indexes=st.lists(st.tuples(collections, st.lists(fields, min_size=1, max_size=2, unique=True)), max_size=3),
        records=st.lists(puts, max_size=3),
    )
    def begin(  # type: ignore[override]
        self, segment: int, durability: Any, indexes: list[tuple[str, list[str]]], records: list[list[Mutation]]
    ) -> None:
        super().begin(segment, durability)
        for collection, paths in indexes:
            self.declare(collection, paths)
        for changes in records:
            self._commit(changes, None)

    @rule(records=st.lists(puts, min_size=1, max_size=3))
    def put_some(self, records: list[list[Mutation]]) -> None:
        for changes in records:
            self._commit(changes, None)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), again=st.booleans())
    def delete_one(self, data: Any, again: bool) -> None:
        collection, record_id = data.draw(st.sampled_from(sorted(self.live)))
        gone = [Mutation(kind="delete", collection=collection, id=record_id)]
        self._commit(gone, None)
        if again:
            self._commit(gone, None)

    @rule(collection=collections, paths=st.lists(fields, min_size=1, max_size=2, unique=True))
    def declare(self, collection: str, paths: list[str]) -> None:
        assert self.store.declare_index(collection, paths).complete
        self.declared.add((collection, tuple(paths)))

    @precondition(lambda self: self.declared)
    @rule(data=st.data())
    def drop(self, data: Any) -> None:
        collection, paths = data.draw(st.sampled_from(sorted(self.declared)))
        assert self.store.drop_index(collection, "-".join(paths))
        self.declared.remove((collection, paths))

    @precondition(lambda self: self.told)
    @rule(collection=collections, where=wheres)
    def query(self, collection: str, where: Any) -> None:
        matching = self._matching(collection, where)
        expected = [record_id for record_id, _ in matching]
        found, cursor = [], None
        while True:
            page = self.store.query(collection, where=where, limit=2, after=cursor)
            found += [record.id for record in page.records]
            cursor = page.next_cursor
            if page.exhausted:
                break
        assert found == expected
        assert self.store.count(collection, where) == len(expected)
        ordered = self.store.query(collection, where=where, order_by=[("n", "asc")], limit=1000)
        assert sorted(record.id for record in ordered.records) == sorted(expected)

    def _matching(self, collection: str, where: Any) -> list[tuple[str, int]]:
        ids = sorted((record_id for name, record_id in self.live if name == collection), key=str.encode)
        return [
            (record_id, self.versions[collection, record_id])
            for record_id in ids
            if holds(where, self.live[collection, record_id])
        ]

    def _seen(self, read: list[tuple[str, str]], asked: list[tuple[str, Any]]) -> Any:
        versions = [self.versions[key] if key in self.live else 0 for key in read]
        return versions, [self._matching(*one) for one in asked]

    @rule(
        target=bases,
        read=st.lists(keys, max_size=2, unique=True),
        asked=st.lists(st.tuples(collections, wheres), max_size=2),
    )
    def read_basis(self, read: list[tuple[str, str]], asked: list[tuple[str, Any]]) -> Any:
        if not read and not asked:
            return multiple()
        predicates = [Predicate(collection=name, where=where) for name, where in asked]
        basis = self.store.read_basis([":".join(key) for key in read], predicates)
        assert [one.version if one else 0 for one in basis.records] == self._seen(read, asked)[0]
        return basis.token, read, asked, self._seen(read, asked), self.lives

    @rule(basis=bases, change=mutations)
    def commit_fenced(self, basis: Any, change: Mutation) -> None:
        token, read, asked, seen, lives = basis
        if lives != self.lives:
            return
        if self._seen(read, asked) != seen:
            try:
                self.store.commit([change], fences=[token])
            except errors.FenceBroken:
                return
            raise AssertionError("the store accepted a broken read basis")
        self._commit([change], None, fences=[token])

    @precondition(lambda self: self.told)
    @rule(name=st.sampled_from(["p", "q"]), back=st.integers(0, 5))
    def pin(self, name: str, back: int) -> None:
        sequence = max(self.floor, len(self.told) - back)
        self.store.pin(name, sequence, None)
        self.pinned[name] = sequence

    @precondition(lambda self: self.pinned)
    @rule(data=st.data())
    def unpin(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.pinned)))
        self.store.unpin(name)
        del self.pinned[name]

    @precondition(lambda self: self.told)
    @rule(keep=st.sampled_from([0, 0, 0, 1, 3]), unpinned=st.booleans())
    def compact(self, keep: int, unpinned: bool) -> None:
        """Let go of all but the last few operations and what pins hold; deleted records below that are forgotten."""
        head = len(self.told)
        for name in sorted(self.pinned) if unpinned else ():
            self.store.unpin(name)
            del self.pinned[name]
        done = self.store.compact(
            Retention(age_ms=0, bytes=0, ids_age_ms=None), retain_from=max(0, head - keep), now_ms=1 << 50
        )
        assert done.head == head
        held = min([max(0, head - keep), *self.pinned.values()])
        assert self.floor <= done.floor <= max(held, self.floor)
        self.floor = done.floor
        assert self.store.start().sequence == self.floor
        newest = {one[1]: place for place, one in enumerate(self.told, 1)}
        for key in [*self.versions]:
            if key not in self.live and newest[":".join(key)] <= self.floor:
                self.version_floors[key[0]] = max(self.version_floors.get(key[0], 0), self.versions.pop(key))

    @precondition(lambda self: self.told)
    @rule()
    def rebuild_view(self) -> None:
        self.store.rebuild_view()

    @precondition(lambda self: self.told)
    @rule()
    def verify(self) -> None:
        assert self.store.verify().findings == ()

    @precondition(lambda self: self.told)
    @rule(key=keys)
    def history(self, key: tuple[str, str]) -> None:
        mine = [one for one in self.told[self.floor :] if one[1] == ":".join(key)][::-1]
        its = [(one.kind, one.key, one.version) for one in self.store.history(*key).operations]
        assert its == [one[:3] for one in mine]

    @precondition(lambda self: self.told)
    @rule(collection=collections, where=wheres, data=st.data())
    def as_of(self, collection: str, where: Any, data: Any) -> None:
        revision = data.draw(st.sampled_from([0, *self.revisions]))
        if revision < self.floor:
            with pytest.raises(errors.FeedCompacted):
                self.store.as_of(revision)
            return
        live: dict[str, tuple[int, Any]] = {}
        for kind, key, version, value in self.told[:revision]:
            live[key] = (version, value)
            if kind == "delete":
                del live[key]
        past = self.store.as_of(revision)
        held = {one[1]: sequence for sequence, one in enumerate(self.told[:revision], 1) if one[1] in live}
        changed = {one[1] for one in self.told[revision:]}
        gone = {key for key, sequence in held.items() if key in changed and sequence <= self.floor}
        for key in gone:  # what it said then was compacted away, and the present says something else
            with pytest.raises(errors.FeedCompacted):
                past.get(key)
        for key in {one[1] for one in self.told} - gone:
            record = past.get(key)
            assert (record is not None) == (key in live)
            if record is not None:
                assert record.version == live[key][0] and same_json(record.value, live[key][1])
        if gone:
            return
        expected = sorted(
            (
                key.partition(":")[2]
                for key, (_, value) in live.items()
                if key.startswith(f"{collection}:") and holds(where, value)
            ),
            key=str.encode,
        )
        assert [record.id for record in past.query(collection, where=where, limit=1000).records] == expected
        assert past.count(collection, where) == len(expected)

    @precondition(lambda self: self.told)
    @rule()
    def back_up_and_go_on_with_what_is_restored(self) -> None:
        self.lives += 1
        saved, restored = (self.directory.with_name(f"{self.directory.name}-{name}{self.lives}") for name in "br")
        self.store.backup(saved)
        self.store.close()
        restore(saved, restored)
        shutil.rmtree(saved)
        shutil.rmtree(self.directory)
        self.directory = Path(restored)
        self.open()

    @invariant()
    def indexes_and_pins_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        assert {(one.collection, one.fields) for one in self.store.indexes()} == self.declared
        assert {one.name: one.sequence for one in self.store.pins()} == self.pinned


WiderModel.TestCase.settings = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
test_any_wider_history_agrees_with_the_model = WiderModel.TestCase
