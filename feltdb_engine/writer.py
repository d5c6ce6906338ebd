"""One commit: take the turn, catch up, decide, append, apply, commit the view, publish, give the turn back, be durable.

See docs/engine.md for the protocol and what a crash at each step leaves behind.
"""

import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import lmdb

from feltdb_engine import frame, limits, positions, view
from feltdb_engine.apply import apply
from feltdb_engine.core import Core
from feltdb_engine.decide import Decision, Request, Unproved, decide
from feltdb_engine.deciding import Deciding, prepared
from feltdb_engine.durability import Durability, as_storage_error, fail, failed, refusal
from feltdb_engine.errors import DeadlineExceeded, EngineError, StorageFull, StorageWriteFailed, StoreClosed
from feltdb_engine.files import ForceFailed
from feltdb_engine.frame import Frame
from feltdb_engine.recovery import catch_up
from feltdb_engine.view import State, StoredTransaction, Transaction

_TRIES = 3  # then values that are changed all the time are checked in the turn


class Outcome(NamedTuple):
    """What the turn brought, and the log position and sequence it rests on: nobody is told before these are durable."""

    answer: Decision | StoredTransaction
    state: State
    end: int
    last: int
    refusal: EngineError | None = None


class Writer:
    """The writing side of an open store."""

    def __init__(self, core: Core, durability: Durability) -> None:
        self._core = core
        self._words = core.words
        self._durability = durability
        self._until = 0.0  # of whoever has the turn

    def commit(self, request: Request, deadline: float | None) -> Outcome:
        """Commit and be durable. Raises the refusals of `decide`, StorageError and DeadlineExceeded."""
        until = time.monotonic() + limits.TURN_WAIT_S if deadline is None else deadline
        try:
            ahead = request.fences or self._core.view.known_rules is not None
            outcome = (self._prepared if ahead else self._decided)(request, until)
        except Unproved:
            outcome = self._prepared(request, until)  # the first that this process hears of a contract
        self._durability.wait(outcome.end, outcome.last, deadline)
        self._prepare_ahead()
        if outcome.refusal is not None:
            raise outcome.refusal
        return outcome

    def _decided(self, request: Request, until: float) -> Outcome:
        try:
            return self._turn(until, lambda txn, state: self._decide(txn, state, request))
        except StorageFull:
            # Readers that were killed may pin pages that could be used again: let go of them, once.
            if self._core.view.env.reader_check() == 0:
                raise
            return self._turn(until, lambda txn, state: self._decide(txn, state, request))

    def _prepared(self, request: Request, until: float) -> Outcome:
        """Look at what takes time before taking the turn, again as often as it was overtaken."""
        tries = 0
        while True:
            tries += 1
            ready = prepared(self._core, request, until, final=tries > _TRIES)
            try:
                return self._decided(ready, until)
            except Unproved:
                request = ready
                if time.monotonic() >= until:
                    raise DeadlineExceeded("The deadline passed while what was read was looked at.") from None

    def own(self, act: Callable[[Transaction, State], Outcome], deadline: float) -> None:
        """Run a step of the engine's own in the turn, and be durable."""
        outcome = self._turn(deadline, act)
        self._durability.wait(outcome.end, outcome.last)

    def append_own(self, txn: Transaction, state: State, kind: int, content: bytes) -> Outcome:
        """Append a frame without operations, inside `own`."""
        after = self._append_frame(txn, state, kind, 0, state.at_ms, content)
        return nothing_done(after)

    def catch_up(self, deadline: float) -> None:
        """Publish what a killed writer left, for readers that wait for it."""
        self.own(lambda _txn, state: nothing_done(state), deadline)

    def settled(self) -> State:
        """The state now, published and forced, also for a store that does not wait for the disk."""
        outcome = self._turn(time.monotonic() + limits.TURN_WAIT_S, lambda _txn, state: nothing_done(state))
        self._durability.force_all(outcome.end)
        return outcome.state

    def seal(self) -> None:
        """Go on in a new segment, so that everything before it can go once it is passed."""
        self.settled()  # so that what is left to force in the turn is little

        def act(txn: Transaction, state: State) -> Outcome:
            self._durability.force_all(state.position)
            opening, first = self._core.log.segment_frame(state.chain(), state.position)
            return nothing_done(self._append(txn, state, opening, [first]))

        self.own(act, time.monotonic() + limits.TURN_WAIT_S)

    def _turn(self, until: float, act: Callable[[Transaction, State], Outcome]) -> Outcome:
        core, words = self._core, self._words
        core.turn.take(until)
        try:
            self._until = until
            core.turn.refuse_elsewhere()
            if words[positions.STATE] != positions.LIVE:
                raise refusal(words[positions.STATE])
            txn = core.view.write()
            try:
                state = view.state(txn)
                if words[positions.APPENDING] or state.position != words[positions.WRITTEN]:
                    txn.abort()
                    catch_up(core)
                    txn = core.view.write()
                    state = view.state(txn)
                return act(txn, state)
            finally:
                txn.abort()
        except view.BROKEN as error:
            positions.ask_to_renew(words)
            raise refusal(positions.RENEW) from error
        except lmdb.Error as error:
            raise as_storage_error(error, core.path) from error
        finally:
            core.turn.give_back()

    def _decide(self, txn: Transaction, state: State, request: Request) -> Outcome:
        try:
            answer = decide(Deciding(self._core, txn), state, request)
        except EngineError as refused:
            return nothing_done(state)._replace(refusal=refused)
        if isinstance(answer, StoredTransaction):
            return Outcome(answer, state, answer.end, answer.base + answer.operations)
        after = self._append_frame(txn, state, frame.TRANSACTION, answer.operations, answer.at_ms, answer.payload)
        return Outcome(answer, state, after.position, after.sequence)

    def _append_frame(self, txn: Transaction, state: State, kind: int, count: int, at_ms: int, content: bytes) -> State:
        """Append one frame, behind a segment frame where a new segment begins with it."""
        log, chain = self._core.log, state.chain()
        durable = self._words[positions.DURABLE]
        frames: list[Frame] = []
        opening = b""
        if not log.fits(chain.position, frame.encoded_bytes(len(content))):
            self._durability.force_all(chain.position)
            durable = max(durable, chain.position)
            opening, first = log.segment_frame(chain, durable)
            frames.append(first)
            chain = first.chain()
            log.forget_before(view.floor(txn).start.position)
        encoded, made = frame.encode(chain, kind=kind, operations=count, durable=durable, at_ms=at_ms, payload=content)
        frames.append(made)
        return self._append(txn, state, opening + encoded if opening else encoded, frames)

    def _append(self, txn: Transaction, state: State, data: bytes, frames: list[Frame]) -> State:
        """From the first byte in the log to the published position; undone whole where the view cannot follow."""
        core, words = self._core, self._words
        step = core.files.step
        begin, end = frames[0].position, frames[-1].end
        if words[positions.PREPARED] < end:
            self._make_room(end)
        # Where others write too, the same page would be written twice: their common force does better.
        alone = core.durability == "commit" and words[positions.DURABLE] == words[positions.WRITTEN]
        step("append")
        words[positions.APPENDING] = 1
        try:
            core.log.append(begin, data, hurry=alone)
            step("appended")
            after = state
            for made in frames:
                after = apply(core.view, txn, after, made)
            step("view commit")
            txn.commit()
            step("view committed")
        except BaseException as error:
            if not self._took_effect(txn, end):
                self._undo(begin, end, error)
            if not isinstance(error, Exception):
                self._publish(frames[-1])
                raise
            # The view has it: it is published, and answered, like any other commit.
        self._publish(frames[-1])
        return after

    def _publish(self, last: Frame) -> None:
        words = self._words
        self._core.files.step("publish")
        words[positions.WRITTEN] = last.end
        self._core.files.step("written")
        words[positions.WRITTEN_SEQUENCE] = last.last
        words[positions.APPENDING] = 0
        self._core.files.step("published")

    def _took_effect(self, txn: Transaction, end: int) -> bool:
        """Whether the view has the frame although its commit did not return."""
        try:
            txn.abort()
            with self._core.view.read() as reading:
                state = view.state(reading)
            return state.position == end
        except lmdb.Error:
            return False

    def _undo(self, begin: int, end: int, cause: BaseException) -> NoReturn:
        """Zero the frame and force the zeroes, still holding the turn. Always raises."""
        core = self._core
        try:
            core.files.step("undo")
            core.log.zero(begin, end)
        except OSError as error:
            fail(core, f"undo: {error}")
            raise failed("unknown") from error
        self._words[positions.APPENDING] = 0
        if isinstance(cause, lmdb.Error | OSError):
            raise as_storage_error(cause, core.path) from cause
        raise cause

    def _make_room(self, end: int) -> None:
        """Zero-filled space up to `end`, before the first byte of the frame: a full disk refuses all of it here."""
        core, words = self._core, self._words
        core.prepare_lock.take(self._until)
        try:
            prepared = max(words[positions.PREPARED], core.log.start_of(end - 1))
            while prepared < end:
                prepared = core.log.prepare(prepared)
                words[positions.PREPARED] = prepared
        except ForceFailed as error:
            fail(core, f"prepare: {error}")
            raise failed("no") from error
        except OSError as error:
            raise as_storage_error(error, core.path) from error
        finally:
            core.prepare_lock.release()

    def _prepare_ahead(self) -> None:
        """After a commit was answered for: one step of zero-filling where space runs low. Not done is no harm."""
        core, words = self._core, self._words
        if words[positions.PREPARED] - words[positions.WRITTEN] >= limits.PREPARE_AHEAD_BYTES:
            return
        try:
            if not core.prepare_lock.try_exclusive():
                return
        except StoreClosed:
            return
        try:
            prepared = words[positions.PREPARED]
            if prepared - words[positions.WRITTEN] < limits.PREPARE_AHEAD_BYTES:
                words[positions.PREPARED] = core.log.prepare(prepared)
        except ForceFailed as error:
            fail(core, f"prepare: {error}")
        except (OSError, StorageWriteFailed):
            pass  # the commit that needs the space says what is wrong
        finally:
            core.prepare_lock.release()


def nothing_done(state: State) -> Outcome:
    """The outcome of a step that rests on this state and decided nothing."""
    return Outcome(Decision(b"", 0, state.at_ms, (), ()), state, state.position, state.sequence)
