"""Bringing a contract into force: what stored records would break it, and the steps from proposed to active.

1. Every record is held to it, as of one moment. Where some break it: refused with counts and samples, nothing changed.
2. The contract is proposed, a frame in the log: from here on what is written is held to it as well, as far as its exact
   indexes have come.
3. Its exact indexes are built, in batches, while others write.
4. What was written between 1 and 2 is checked, every reference, and that nothing is twice in an index.
5. It is activated, a frame, or, where 4 found something, withdrawn.

A process killed in between leaves the contract proposed: the next activation takes its place, or it is withdrawn.
"""

import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from itertools import islice
from typing import Any, Final, Literal

import lmdb
import orjson

from feltdb_engine import contracts, enforcing, frame, indexes, limits
from feltdb_engine.contract import Contract, Part, reader
from feltdb_engine.core import Core
from feltdb_engine.declaring import Declarer
from feltdb_engine.enforcing import Key
from feltdb_engine.errors import ContractBroken, ContractConflict, ContractInvalid, DeadlineExceeded
from feltdb_engine.model import BreachSample, ContractInfo, ContractReport, RuleBreaches
from feltdb_engine.moment import Moment
from feltdb_engine.values import loads
from feltdb_engine.view import ENTRY, ENTRY_BYTES, State, Transaction
from feltdb_engine.walk import Progress
from feltdb_engine.writer import Outcome, Writer, nothing_done

Moments = Callable[[Sequence[str], float | None], AbstractContextManager[Moment]]
Rule = Literal["schema", "unique", "reference"]
_BATCH_RECORDS: Final = 500
_BATCH_BYTES: Final = 8 << 20


class _Findings:
    """What breaks which rule: counts, and the first few."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Rule, tuple[str, ...]], tuple[int, list[BreachSample]]] = {}
        self.checked = 0

    def add(self, collection: str, rule: Rule, fields: tuple[str, ...], sample: BreachSample) -> None:
        count, samples = self._found.get((collection, rule, fields), (0, []))
        if len(samples) < limits.CONTRACT_SAMPLES:
            samples.append(sample)
        self._found[(collection, rule, fields)] = (count + 1, samples)

    def report(self, *, complete: bool) -> ContractReport:
        return ContractReport(
            complete=complete,
            checked=self.checked,
            breaches=tuple(
                RuleBreaches(collection=collection, rule=rule, fields=fields, count=count, samples=tuple(samples))
                for (collection, rule, fields), (count, samples) in sorted(self._found.items())
            ),
        )


class _Seen:
    """Contents of unique fields seen so far, on disk: a collection may be larger than memory."""

    def __init__(self, directory: str) -> None:
        self._env = lmdb.Environment(directory, map_size=limits.VIEW_MAP_BYTES, sync=False, metasync=False)
        self._txn = self._env.begin(write=True)

    def first(self, number: int, content: bytes, record_id: bytes) -> bytes | None:
        """The id seen before with that content; None where this is the first."""
        key = indexes.NUMBER.pack(number) + content
        return None if self._txn.put(key, record_id, overwrite=False) else self._txn.get(key)

    def close(self) -> None:
        self._txn.abort()
        self._env.close()


class _Pass:
    """One look at all records a contract speaks of."""

    def __init__(self, contract: Contract, moments: Moments, deadline: float | None, progress: Progress | None) -> None:
        self._contract = contract
        self._moments = moments
        self._deadline = deadline
        self._progress = progress
        self.findings = _Findings()

    def run(self, *, checked_until: int, seen: _Seen | None) -> bool:
        """Whether it came to the end. Values of operations up to `checked_until` need no look at their schema."""
        with self._moments(list(self._contract.parts), self._deadline) as moment:
            total = sum(moment.counted(name.encode())[0] for name in self._contract.parts)
        for number, (collection, part) in enumerate(self._contract.parts.items()):
            keys = _keys(part, number * limits.CONTRACT_MAX_INDEXES)
            after: bytes | None = None
            while True:
                if self._deadline is not None and time.monotonic() >= self._deadline:
                    return False
                with self._moments((collection,), self._deadline) as moment:
                    batch = _batch(moment.entries(collection.encode(), after))
                    for record_id, entry in batch:
                        self._record(moment, collection, part, keys, record_id, entry, checked_until, seen)
                if not batch:
                    break
                after = batch[-1][0]
                self.findings.checked += len(batch)
                if self._progress is not None:
                    self._progress(min(self.findings.checked, total), total)
        return True

    def _record(
        self,
        moment: Moment,
        collection: str,
        part: Part,
        keys: list[Key],
        record_id: bytes,
        entry: bytes,
        checked_until: int,
        seen: _Seen | None,
    ) -> None:
        fresh = part.schema is not None and ENTRY.unpack_from(entry)[1] > checked_until
        if not fresh and not keys:
            return
        data = entry[ENTRY_BYTES:]
        value = loads(data)
        if fresh and part.schema is not None:
            breaches = part.schema.breaches(value, len(data))
            if breaches:
                one = breaches[0]
                self._add(collection, "schema", (), record_id, one.pointer, one.keyword, one.message)
        for key in keys:
            content = key.read(value)
            if content is None:
                continue
            if key.target:
                there = lambda found, key=key: _there(moment, key.target, found)  # noqa: E731
                message = enforcing.reference_fault(key, value, there)
                if message is not None:
                    self._add(collection, "reference", key.fields, record_id, None, "references", message)
            elif seen is not None:
                other = seen.first(key.number, content, record_id)
                if other is not None:
                    self.twice(collection, key.fields, record_id, other)

    def twice(self, collection: str, fields: tuple[str, ...], record_id: bytes, other: bytes) -> None:
        """Two records have the same in unique fields."""
        message = f"{collection}:{other.decode()} has it too."
        self._add(collection, "unique", fields, record_id, None, "unique", message)

    def _add(
        self,
        collection: str,
        rule: Rule,
        fields: tuple[str, ...],
        record_id: bytes,
        pointer: str | None,
        keyword: str,
        message: str,
    ) -> None:
        where = enforcing.pointer_of(fields[0]) if pointer is None else pointer
        sample = BreachSample(id=record_id.decode(), pointer=where, keyword=keyword, message=message)
        self.findings.add(collection, rule, fields, sample)


def _keys(part: Part, number: int) -> list[Key]:
    unique = [Key(number + at, one.fields, reader(one.fields), b"") for at, one in enumerate(part.unique)]
    return unique + [Key(0, (one.field,), reader((one.field,)), one.collection.encode()) for one in part.references]


def _there(moment: Moment, collection: bytes, record_id: bytes) -> bool:
    return len(record_id) <= limits.ID_MAX_BYTES and moment.record(collection, record_id) is not None


def _batch(entries: Iterator[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    taken, size = [], 0
    for pair in islice(entries, _BATCH_RECORDS):
        taken.append(pair)
        size += len(pair[1])
        if size > _BATCH_BYTES:
            break
    return taken


def check(contract: Contract, moments: Moments, deadline: float | None, progress: Progress | None) -> ContractReport:
    """What records of one moment would break a contract. Not `complete` where the deadline passed."""
    with tempfile.TemporaryDirectory(prefix="feltdb-check-") as directory:
        seen = _Seen(directory)
        try:
            looking = _Pass(contract, moments, deadline, progress)
            complete = looking.run(checked_until=0, seen=seen)
        finally:
            seen.close()
    return looking.findings.report(complete=complete)


class Activation:
    """One activation over an open store."""

    def __init__(self, core: Core, writer: Writer, declarer: Declarer, contract: Contract, max_bytes: int) -> None:
        self._core = core
        self._writer = writer
        self._declarer = declarer
        self._contract = contract
        self._id = secrets.token_hex(8)
        if len(orjson.dumps(contract.members)) > max_bytes - 256:
            raise ContractInvalid("The contract is too large for this store's segments.", pointer="")

    def run(
        self,
        then: Moments,
        revision: int,
        now: Moments,
        if_revision: int | None,
        deadline: float | None,
        progress: Progress | None,
    ) -> None:
        """All steps; `then` gives moments of `revision`, `now` of the present.

        Raises ContractBroken, ContractConflict, DeadlineExceeded; nothing is changed then.
        """
        with self._core.view.read() as txn:
            before = contracts.state(txn)
        _expect(before, if_revision)
        if before.pending is None and before.active == self._contract.members:
            return
        _refuse(check(self._contract, then, deadline, progress))
        self._core.files.step("contract checked")
        self._propose(before.revision)
        try:
            self._core.files.step("contract proposed")
            self._declarer.build(deadline)
            self._core.files.step("contract indexes built")
            found = self._look_again(now, revision, deadline, progress)
            self._expect_mine()
            _refuse(found)
            self._core.files.step("contract checked again")
            self._append({"act": "activate"})
        except BaseException:
            self._append({"act": "withdraw"}, only_if_mine=True)
            raise
        self._core.files.step("contract activated")
        self._declarer.build(deadline)

    def _propose(self, revision: int) -> None:
        said = {"act": "propose", "id": self._id, "contract": self._contract.members}

        def act(txn: Transaction, state: State) -> Outcome:
            _expect(contracts.state(txn), revision)
            return self._writer.append_own(txn, state, frame.CONTRACT, orjson.dumps(said))

        self._writer.own(act, time.monotonic() + limits.TURN_WAIT_S)

    def _expect_mine(self) -> None:
        with self._core.view.read() as txn:
            found = contracts.state(txn)
        if found.pending is None or found.pending.id != self._id:
            raise ContractConflict("Another activation came in between.", revision=found.revision)

    def _append(self, said: dict[str, str], *, only_if_mine: bool = False) -> None:
        def act(txn: Transaction, state: State) -> Outcome:
            pending = contracts.state(txn).pending
            if pending is None or pending.id != self._id:
                if only_if_mine:
                    return nothing_done(state)
                raise ContractConflict("Another activation came in between.", revision=contracts.state(txn).revision)
            return self._writer.append_own(txn, state, frame.CONTRACT, orjson.dumps(said))

        self._writer.own(act, time.monotonic() + limits.TURN_WAIT_S)

    def _look_again(
        self, now: Moments, checked_until: int, deadline: float | None, progress: Progress | None
    ) -> ContractReport:
        looking = _Pass(self._contract, now, deadline, progress)
        complete = looking.run(checked_until=checked_until, seen=None)
        for collection, part in self._contract.parts.items():
            for one in part.unique:
                complete = complete and self._walk(looking, collection, one.index_name, one.fields, deadline)
        return looking.findings.report(complete=complete)

    def _walk(
        self, looking: _Pass, collection: str, name: str, fields: tuple[str, ...], deadline: float | None
    ) -> bool:
        """Neighbours in a unique index that have the same content; whether the index is whole and was walked."""
        last = b""
        while True:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            with self._core.view.read() as txn:
                found = indexes.catalogue(txn).find(collection, name)
                if found is None or found.progress is not None:
                    return False
                with txn.cursor(db=self._core.view.index) as cursor:
                    there = cursor.set_range(max(last, found.prefix))
                    keys = list(islice(cursor.iternext(values=False), limits.INDEX_BATCH_RECORDS)) if there else []
            for key in keys:
                if not key.startswith(found.prefix):
                    return True
                end = indexes.NUMBER_BYTES + indexes.EXACT_BYTES
                if key != last and key[:end] == last[:end]:
                    looking.twice(collection, fields, key[end:], last[end:])
                last = key
            if len(keys) < limits.INDEX_BATCH_RECORDS:
                return True


def withdraw(writer: Writer) -> bool:
    """Let go of a contract that was proposed and never activated; False where there is none."""
    there = False

    def act(txn: Transaction, state: State) -> Outcome:
        nonlocal there
        there = contracts.state(txn).pending is not None
        if not there:
            return nothing_done(state)
        return writer.append_own(txn, state, frame.CONTRACT, orjson.dumps({"act": "withdraw"}))

    writer.own(act, time.monotonic() + limits.TURN_WAIT_S)
    return there


def info(core: Core) -> ContractInfo:
    """The contract as it stands."""
    with core.view.read() as txn:
        found = contracts.state(txn)
    return ContractInfo(
        revision=found.revision,
        sequence=found.sequence,
        contract=found.active or {"collections": {}},
        pending=None if found.pending is None else found.pending.members,
    )


def _expect(found: contracts.State, revision: int | None) -> None:
    if revision is not None and found.revision != revision:
        raise ContractConflict(f"The contract is at revision {found.revision}.", revision=found.revision)


def _refuse(report: ContractReport) -> None:
    if report.breaches:
        raise ContractBroken("Stored records break this contract; nothing was changed.", report=as_members(report))
    if not report.complete:
        raise DeadlineExceeded("The deadline passed before all records were looked at; nothing was changed.")


def as_members(report: ContractReport) -> dict[str, Any]:
    """A report as JSON values."""
    return {**asdict(report), "breaches": [{**asdict(one), "fields": list(one.fields)} for one in report.breaches]}
