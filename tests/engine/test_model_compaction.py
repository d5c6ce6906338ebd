"""The model of `test_model.py`, compacted again and again, also while it is written to."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from feltdb_engine import Mutation, Retention
from tests.engine.test_model import StoreAgainstModel, mutations


class CompactedStoreAgainstModel(StoreAgainstModel):
    """Deleted records are forgotten below the floor; their collection's versions go on above them."""

    def __init__(self) -> None:
        super().__init__()
        self.floor = 0
        self.version_floors: dict[str, int] = {}

    def _version_before(self, counted: dict[tuple[str, str], int], change: Mutation) -> int:
        known = counted.get((change.collection, change.id))
        if known is None and change.kind != "delete":
            return self.version_floors.get(change.collection, 0)
        return known or 0

    @rule(
        behind=st.one_of(st.none(), st.integers(0, 6)),
        pinned=st.one_of(st.none(), st.integers(0, 6)),
        meanwhile=st.lists(mutations, max_size=3, unique_by=lambda one: (one.collection, one.id)),
    )
    def compact(self, behind: int | None, pinned: int | None, meanwhile: list[Mutation]) -> None:
        head = len(self.told)
        retain_from = None if behind is None else max(0, head - behind)
        pin = None if pinned is None else max(self.floor, head - pinned)
        if pin is not None:
            self.store.pin("p", pin, None)
        left = [meanwhile] if meanwhile else []

        def progress(done: int, total: int) -> None:
            if left:
                self._commit(left.pop(), None)

        policy = Retention(age_ms=0, ids_age_ms=None)
        done = self.store.compact(policy, retain_from=retain_from, now_ms=1 << 50, progress=progress)
        if pin is not None:
            self.store.unpin("p")
        held = [one for one in (retain_from, pin) if one is not None]
        assert self.floor <= done.floor <= max([self.floor, min(held)] if held else [head])
        assert held or done.floor == head
        self._forget(done.floor)

    def _forget(self, floor: int) -> None:
        self.floor = floor
        last = {tuple(key.split(":", 1)): sequence for sequence, (_, key, *_) in enumerate(self.told, 1)}
        for key, version in list(self.versions.items()):
            if key not in self.live and last[key] <= floor:
                self.version_floors[key[0]] = max(version, self.version_floors.get(key[0], 0))
                del self.versions[key]

    @rule()
    def verify(self) -> None:
        findings: Sequence[object] = self.store.verify().findings
        assert findings == ()


CompactedStoreAgainstModel.TestCase.settings = settings(StoreAgainstModel.TestCase.settings, max_examples=25)
test_any_history_agrees_with_the_model_also_compacted = CompactedStoreAgainstModel.TestCase
