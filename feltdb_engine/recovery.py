"""What lies past the view's position: frames a killed writer left are applied, a tail is cut, damage is refused.

A bad place *below* D (the highest durable position anything speaks of) is damage. At or above D, everything from the
first bad place on was never acknowledged: it is copied aside, forced, zeroed, forced, and a recovery frame with a
fresh epoch follows, so that it can never come back.
"""

import secrets
import time
from collections.abc import Iterator

from feltdb_engine import frame, limits, payload, positions, view
from feltdb_engine.apply import apply
from feltdb_engine.core import Core
from feltdb_engine.errors import LogCorrupt, StoreRebuilding
from feltdb_engine.segment import FrameReader, Log
from feltdb_engine.view import State

TAILS = "tails"
_CHUNK = 1 << 20
_MAGIC = frame.MAGIC.to_bytes(4, "little")


def catch_up(core: Core) -> State:
    """Under the turn: apply the frames a killed writer left, cut a tail, publish. Gives the state reached."""
    core.files.step("catch up")
    with core.view.read() as reading:
        state = view.state(reading)
    if not ends_in_log(core.log, state):
        # The view has a frame that was undone: its own commit failed half-way.
        positions.ask_to_renew(core.words)
        raise StoreRebuilding("The view must be made again; ask again shortly.")
    state = apply_rest(core)
    found = bytes_beyond(core.log, state.position)
    if found:
        state = cut_tail(core, state, found)
    words = core.words
    words[positions.WRITTEN] = state.position
    words[positions.WRITTEN_SEQUENCE] = state.sequence
    words[positions.APPENDING] = 0
    return state


def ends_in_log(log: Log, state: State) -> bool:
    """Whether the log has the frame the view ends with."""
    if state.begin == state.position:
        return True
    last = FrameReader(log).at(state.begin)
    return last is not None and (last.end, last.crc) == (state.position, state.crc) and log.owns(state.begin)


def settle(core: Core, durable: int, *, all_forced: bool) -> State:
    """Alone, at opening: judge and apply everything past the view, cut a tail, force, publish. Raises LogCorrupt."""
    words, log = core.words, core.log
    state = apply_rest(core)
    discarded = bytes_beyond(log, state.position)
    if discarded:
        durable = max(durable, highest_durable_beyond(log, state.position))
    refuse_damage(log, state, durable)
    _refuse_gaps(core, state)
    if not (all_forced and words[positions.DURABLE] == state.position):
        for start in log.starts():
            if log.start_of(durable) <= start <= state.position:
                log.file(start).force()
    words[positions.PREPARED] = _prepared(log, state.position)
    if discarded:
        state = cut_tail(core, state, discarded)
    words[positions.WRITTEN] = words[positions.DURABLE] = state.position
    words[positions.WRITTEN_SEQUENCE] = words[positions.DURABLE_SEQUENCE] = state.sequence
    words[positions.APPENDING] = 0
    return state


def _prepared(log: Log, position: int) -> int:
    """Up to where files already have their size."""
    start = log.start_of(max(position - 1, 0))
    end = start + min(log.file(start).size(), log.capacity)
    return max(position, end)


def rehome(log: Log, durable: int) -> None:
    """After a failed force: the segments from D on, as they can still be read, in new files, forced there.

    The old files' dirty pages may have been dropped and marked clean, so forcing them again would prove nothing.
    """
    files = log.files
    for start in log.starts():
        if start + log.capacity <= durable:
            continue
        old = log.file(start)
        path = log.path(start)
        fresh = path.with_suffix(".new")
        if fresh.name in files.names(log.directory):
            files.remove(fresh)
        copy = files.open(fresh, create=True)
        try:
            size = old.size()
            for at in range(0, size, _CHUNK):
                copy.write(at, old.read(at, min(_CHUNK, size - at)))
            copy.force()
        finally:
            copy.close()
        log.forget()
        files.rename(fresh, path)
        files.force_names(log.directory)


def apply_rest(core: Core) -> State:
    """Apply all whole frames past the view's position, in batches; `rebuilt` tells others how far it is."""
    with core.view.read() as reading:
        state = view.state(reading)
    pending = 0
    txn = core.view.write()
    try:
        for found in core.log.frames(state.chain()):
            state = apply(core.view, txn, state, found)
            pending += found.end - found.position
            if pending >= limits.REBUILD_BATCH_BYTES:
                txn.commit()
                core.words[positions.REBUILT] = state.position
                pending = 0
                txn = core.view.write()
        if pending:
            txn.commit()
    finally:
        txn.abort()
    core.words[positions.REBUILT] = state.position
    return state


def bytes_beyond(log: Log, position: int) -> int:
    """How many bytes, up to the last one that is not zero, lie past `position`: 0 where the log ends cleanly."""
    last = position
    for at, data in _pieces(log, position):
        kept = len(data.rstrip(b"\0"))
        if kept:
            last = at + kept
    return last - position


def _pieces(log: Log, position: int) -> Iterator[tuple[int, bytes]]:
    """All bytes there are from `position` on, over all segments, as (position, bytes)."""
    first = log.start_of(position - 1) if position else 0
    for start in log.starts():
        if start < first:
            continue
        at = max(start, position)
        while data := log.read(at, _CHUNK) if at < start + log.capacity else b"":
            yield at, data
            at += len(data)


def highest_durable_beyond(log: Log, position: int) -> int:
    """The highest D of any frame past a bad place, each judged by its own checksum. 0 where there is none."""
    highest = 0
    for start in sorted({log.start_of(at) for at, _ in _pieces(log, position)}):
        begin = max(start, position)
        data = log.read(begin, log.capacity)
        at = data.find(_MAGIC)
        while at >= 0:
            offset = at - frame.MAGIC_OFFSET
            if offset >= 0 and (begin + offset) % frame.ALIGNMENT == 0:
                found = frame.decode(data, offset, begin + offset)
                if found is not None:
                    highest = max(highest, found.durable)
            at = data.find(_MAGIC, at + 1)
    return highest


def refuse_damage(log: Log, chain: State, durable: int) -> None:
    """Raise LogCorrupt where the whole frames end below D, or before the first timeline: creation forces that."""
    if chain.position < durable or not any(chain.instance):
        raise damage(log, chain, durable)


def damage(log: Log, chain: State, durable: int) -> LogCorrupt:
    """The refusal of a log whose whole frames end below what was durable."""
    start = log.start_of(max(chain.position - 1, 0))
    return LogCorrupt(
        f"The log is damaged: segment {start:020d}, offset {chain.position - start}, after sequence "
        f"{chain.sequence}; it was durable up to position {durable}.",
        segment=f"{start:020d}",
        offset=chain.position - start,
        sequence=chain.sequence + 1,
    )


def _refuse_gaps(core: Core, state: State) -> None:
    """Raise LogCorrupt where a segment between floor and end is missing, also one this opening need not read."""
    with core.view.read() as txn:
        first = core.log.start_of(view.floor(txn).start.position)
    there = set(core.log.starts())
    for start in range(first, state.position, core.log.capacity):
        if start not in there:
            raise LogCorrupt(
                f"Segment {start:020d} of the log is missing.", segment=f"{start:020d}", offset=0, sequence=None
            )


def cut_tail(core: Core, state: State, discarded: int) -> State:
    """Copy the tail aside, zero it, and go on in a fresh epoch. Gives the state after the recovery frame."""
    core.prepare_lock.take(time.monotonic() + limits.TURN_WAIT_S)
    try:
        return _cut(core, state, discarded)
    finally:
        core.prepare_lock.release()


def _cut(core: Core, state: State, discarded: int) -> State:
    log, files = core.log, core.files
    _keep_aside(core, state.position)
    files.step("tail kept")
    # No file is removed: another process may have it open, and would go on writing to what nobody can find.
    for start in reversed(log.starts()):
        begin = max(start, state.position)
        size = log.file(start).size()
        if start + size > begin:
            log.zero(begin, start + size)
    files.step("tail zeroed")
    return _write_recovery(core, state, discarded)


def _write_recovery(core: Core, state: State, discarded: int) -> State:
    log, chain = core.log, state.chain()
    content = payload.encode_recovery(state.position, discarded)
    frames, data = [], b""
    if not log.fits(chain.position, frame.encoded_bytes(len(content))):
        data, opening = log.segment_frame(chain, chain.position)
        frames.append(opening)
        chain = opening.chain()
    encoded, made = frame.encode(
        chain,
        kind=frame.RECOVERY,
        operations=0,
        durable=state.position,
        at_ms=chain.at_ms,
        payload=content,
        epoch=secrets.randbits(63) | 1,
    )
    frames.append(made)
    prepared = log.start_of(made.end - 1)
    prepared += min(log.file(prepared).size(), log.capacity) if prepared in log.starts() else 0
    while prepared < made.end:
        prepared = log.prepare(prepared)
    core.words[positions.PREPARED] = prepared
    log.append(frames[0].position, data + encoded, hurry=False)
    log.force(made.end)
    with core.view.write() as txn:
        for step in frames:
            state = apply(core.view, txn, state, step)
    return state


def _keep_aside(core: Core, position: int) -> None:
    directory = core.path / TAILS
    core.files.make_directory(directory)
    kept = sorted(name for name in core.files.names(directory) if name.endswith(".tail"))
    now = time.time()
    for index, name in enumerate(kept):
        age = now - int(name.split("-")[0]) / 1000
        if age > limits.TAILS_MAX_AGE_S or index < len(kept) - limits.TAILS_MAX_COUNT + 1:
            core.files.remove(directory / name)
    path = directory / f"{int(now * 1000):015d}-{position:020d}-{secrets.token_hex(4)}.tail"
    file = core.files.open(path, create=True)
    try:
        end = position + bytes_beyond(core.log, position)
        for at, data in _pieces(core.log, position):
            if at < end:
                file.write(at - position, data[: end - at])
        file.force()
    finally:
        file.close()
    core.files.force_names(directory)
