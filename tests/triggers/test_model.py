"""Evaluation against a small model of it: any order of writes, orders, passes and crashes gives the work the model has.

The model knows no batches, cursors' rows, pages or keys: it walks a list of changes. Checked after each step: the work
there is, by its keys; where each trigger stands; that no key is there twice.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from apps.triggers import services
from apps.triggers.evaluation import batches, matching
from apps.workloads.models import Request
from tests.torture import seconds, timeout
from tests.triggers.conftest import BY, World
from tests.triggers.test_crashes import Died

Record = dict[str, Any] | None
names = itertools.count()

PREDICATES: list[tuple[Any, Callable[[Record, Record, Record], bool]]] = [
    (None, lambda record, before, after: True),
    ({"field": "s", "equals": "a"}, lambda record, before, after: (record or {}).get("s") == "a"),
    (
        {"not": {"field": "n", "op": "gte", "value": 2}},
        lambda record, before, after: not (record or {}).get("n", -1) >= 2,
    ),
    ({"changed": "s"}, lambda record, before, after: (before or {}).get("s") != (after or {}).get("s")),
    ({"was": {"field": "s", "equals": "a"}}, lambda record, before, after: (before or {}).get("s") == "a"),
    (
        {"all": [{"changed": "n"}, {"any": [{"field": "s", "equals": "b"}, {"was": {"field": "s", "equals": "b"}}]}]},
        lambda record, before, after: (
            (before or {}).get("n") != (after or {}).get("n")
            and "b" in ((record or {}).get("s"), (before or {}).get("s"))
        ),
    ),
]


@dataclass
class Change:
    """One change as the model knows it."""

    sequence: int
    collection: str
    kind: str
    before: Record
    after: Record


@dataclass
class Model:
    """One trigger as the model knows it."""

    collection: str
    kinds: frozenset[str]
    predicate: int
    state: str = "active"
    cursor: int = 0
    skips: set[int] = field(default_factory=set)
    replays: list[tuple[int, int, int]] = field(default_factory=list)
    ordered: int = 0

    def fires(self, change: Change) -> bool:
        if change.collection != self.collection or change.kind not in self.kinds or change.sequence in self.skips:
            return False
        record = change.before if change.kind == "delete" else change.after
        return PREDICATES[self.predicate][1](record, change.before, change.after)


class EvaluationAgainstModel(RuleBasedStateMachine):
    """The steps, each done to the system and to the model."""

    def __init__(self) -> None:
        super().__init__()
        from apps.keys.services import ensure_namespace

        self.world = World(ensure_namespace(f"m{next(names)}").name)
        self.changes: list[Change] = []
        self.records: dict[tuple[str, str], dict[str, Any]] = {}
        self.triggers: dict[str, Model] = {}
        self.made: set[str] = set()

    def teardown(self) -> None:
        self.world.restart()

    @property
    def head(self) -> int:
        return len(self.changes)

    @initialize()
    def begin(self) -> None:
        self.define("t0", "orders", frozenset({"insert", "update", "delete"}), 0, "now")

    # writes
    @rule(
        writes=st.lists(
            st.tuples(
                st.sampled_from(["orders", "others"]),
                st.sampled_from(["1", "2", "3"]),
                st.one_of(
                    st.none(),
                    st.fixed_dictionaries({}, optional={"s": st.sampled_from(["a", "b"]), "n": st.integers(0, 3)}),
                ),
            ),
            min_size=1,
            max_size=4,
            unique_by=lambda write: write[:2],
        )
    )
    def write(self, writes: list[tuple[str, str, Record]]) -> None:
        from feltdb_engine import Mutation

        self.world.write(
            *[
                Mutation(kind="delete" if value is None else "put", collection=collection, id=name, value=value)
                for collection, name, value in writes
            ]
        )
        for collection, name, value in writes:
            before = self.records.pop((collection, name), None)
            if value is None and before is None:
                continue
            kind = "delete" if value is None else "insert" if before is None else "update"
            self.changes.append(Change(self.head + 1, collection, kind, before, value))
            if value is not None:
                self.records[collection, name] = value

    # orders
    @rule(
        trigger=st.sampled_from(["t0", "t1", "t2"]),
        collection=st.sampled_from(["orders", "others"]),
        kinds=st.frozensets(st.sampled_from(["insert", "update", "delete"]), min_size=1),
        predicate=st.integers(0, len(PREDICATES) - 1),
        start=st.sampled_from(["now", "beginning"]),
    )
    def define(self, trigger: str, collection: str, kinds: frozenset[str], predicate: int, start: str) -> None:
        self.world.define(
            trigger,
            source_collection=collection,
            change_kind=sorted(kinds),
            predicate=PREDICATES[predicate][0],
            start_from=start,
        )
        at = self.head if start == "now" else 0
        known = self.triggers.get(trigger)
        if known is None:
            self.triggers[trigger] = Model(collection, kinds, predicate, cursor=at)
            return
        known.collection, known.kinds, known.predicate = collection, kinds, predicate
        if known.state == "archived":
            known.state, known.cursor = "active", at

    def some(self, trigger: str, *states: str) -> Model | None:
        known = self.triggers.get(trigger)
        return known if known is not None and known.state in states else None

    def order(self, name: str, trigger: str, *arguments: Any, **kwargs: Any) -> None:
        getattr(services, name)(
            self.world.namespace, trigger, *arguments, by=BY, now_ms=10, reason="the model", **kwargs
        )

    @rule(trigger=st.sampled_from(["t0", "t1", "t2"]), name=st.sampled_from(["pause", "disable", "archive"]))
    def stop(self, trigger: str, name: str) -> None:
        allowed = ("active",) if name == "pause" else ("active", "paused", "disabled")
        known = self.some(trigger, *allowed)
        if known is not None:
            self.order(name, trigger)
            known.state = {"pause": "paused", "disable": "disabled", "archive": "archived"}[name]
            if name == "archive":
                known.replays.clear()

    @rule(trigger=st.sampled_from(["t0", "t1", "t2"]), start=st.sampled_from([None, "beginning"]))
    def enable(self, trigger: str, start: str | None) -> None:
        known = self.some(trigger, "paused", "disabled")
        if known is not None:
            self.order("enable", trigger, start_from=start)
            if known.state == "disabled":
                known.cursor = self.head if start is None else 0
            known.state = "active"

    @rule(trigger=st.sampled_from(["t0", "t1", "t2"]), data=st.data())
    def rebase(self, trigger: str, data: st.DataObject) -> None:
        known = self.some(trigger, "active", "paused")
        if known is not None:
            known.cursor = data.draw(st.integers(0, self.head))
            self.order("rebase", trigger, to=self.place(known.cursor))

    @rule(trigger=st.sampled_from(["t0", "t1", "t2"]), data=st.data())
    def skip(self, trigger: str, data: st.DataObject) -> None:
        known = self.some(trigger, "active", "paused")
        if known is not None and known.cursor < self.head:
            sequence = data.draw(st.integers(known.cursor + 1, self.head))
            if sequence not in known.skips:
                self.order("skip", trigger, str(sequence))
                known.skips.add(sequence)

    @rule(trigger=st.sampled_from(["t0", "t1", "t2"]), data=st.data())
    def replay(self, trigger: str, data: st.DataObject) -> None:
        known = self.some(trigger, "active")
        if known is not None and self.head and len(known.replays) < 2:
            start = data.draw(st.integers(0, self.head - 1))
            end = data.draw(st.integers(start + 1, self.head))
            self.order("replay", trigger, start_from=self.place(start), end_at=self.place(end))
            known.ordered += 1
            known.replays.append((known.ordered, start, end))

    def place(self, sequence: int) -> str:
        return f"{self.world.store.head().instance_id}-{sequence}"

    # passes
    @rule()
    def evaluate(self) -> None:
        self.world.evaluate()
        self.model_evaluates()

    @precondition(lambda self: self.head > 0)
    @rule(commits=st.integers(0, 4), rows=st.integers(1, 3), before=st.booleans())
    def evaluate_with_a_crash(self, commits: int, rows: int, before: bool) -> None:
        """The process dies at its n-th transaction, before or after it; another one takes up what is left."""
        with dying_at(commits, rows=rows, before=before):
            try:
                self.world.evaluate()
            except Died:
                self.world.restart()
        self.world.evaluate()
        self.model_evaluates()

    @rule()
    def restart(self) -> None:
        self.world.restart()

    def model_evaluates(self) -> None:
        for name, known in self.triggers.items():
            if known.state != "active":
                continue
            for change in self.changes[known.cursor :]:
                if known.fires(change):
                    self.made.add(f"{name}:{change.sequence}")
            known.cursor = self.head
            for number, start, end in known.replays:
                for change in self.changes[start:end]:
                    if known.fires(change):
                        self.made.add(f"{name}:{change.sequence}:r{number}")
            known.replays.clear()

    @invariant()
    def the_work_is_what_the_model_has(self) -> None:
        rows = Request.objects.filter(namespace=self.world.namespace).values_list("idempotency_key", flat=True)
        keys = [key.removeprefix("state-trigger:").split(":") for key in rows]
        found = [":".join([name, *rest]) for name, _, *rest in keys]
        assert len(found) == len(set(found))
        assert set(found) == self.made

    @invariant()
    def each_trigger_stands_where_the_model_has_it(self) -> None:
        for name, known in self.triggers.items():
            trigger = self.world.trigger(name)
            assert (trigger.state, trigger.cursor.sequence) == (known.state, known.cursor), name


@contextmanager
def dying_at(commits: int, *, rows: int, before: bool) -> Iterator[None]:
    """Let the process die at its n-th transaction of at most so many rows."""
    commit, done = batches.commit, 0

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal done
        done += 1
        if done > commits and before:
            raise Died
        made = commit(*args, **kwargs)
        if done > commits:
            raise Died
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "BATCH_ROWS", rows)
        patch.setattr(batches, "commit", run)
        yield


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        EvaluationAgainstModel,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_evaluation_does_what_a_small_model_of_it_does(world: Any) -> None:
    run(examples=15, steps=25)


@pytest.mark.torture
@timeout(0.05)
def test_evaluation_does_what_a_small_model_of_it_does_for_long(world: Any) -> None:
    ends = time.monotonic() + seconds(0.05)
    while time.monotonic() < ends:
        run(examples=20, steps=60)
