"""Walking the log and judging every frame: chain, checksum, gaps, content hashes. Nothing is raised for what is found.

After a bad place the walk goes on at the next frame that is whole by its own checksum, so that one look names all
damage. Not here: the view (`verify.py`), what damage means for opening (`recovery.py`).
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from feltdb_engine import frame, payload
from feltdb_engine.frame import Chain, Frame
from feltdb_engine.segment import FrameReader, Log, segment_name

Progress = Callable[[int, int], None]
_CHUNK = 1 << 20
_MAGIC = frame.MAGIC.to_bytes(4, "little")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something that is not as it was written. `offset` counts in the segment; `sequence` is the one expected there.

    `kind` is chain, gap, content, payload, end, tail, manifest, snapshot, log or view.
    """

    kind: str
    message: str
    segment: str | None = None
    offset: int | None = None
    sequence: int | None = None


class Walk:
    """One pass over the log from a chain to a position. Frames come out; findings gather in `findings`."""

    def __init__(self, log: Log, start: Chain, end: int, instance: bytes = bytes(16)) -> None:
        self._log = log
        self._end = end
        self._instance = instance
        self.chain = start
        self.findings: list[Finding] = []
        self.frames = self.operations = 0

    def report(self, kind: str, message: str, position: int, sequence: int | None = None) -> None:
        """Add a finding at a position of the log."""
        start = self._log.start_of(position)
        self.findings.append(
            Finding(kind=kind, message=message, segment=segment_name(start), offset=position - start, sequence=sequence)
        )

    def __iter__(self) -> Iterator[Frame]:
        """The whole frames that begin before the end."""
        while self.chain.position < self._end:
            chain = self.chain
            found = next(self._log.frames(chain), None)
            if found is None or found.position >= self._end:
                self.report("chain", "No frame goes on from here.", chain.position, chain.sequence + 1)
                found = self._next_whole(chain.position + frame.ALIGNMENT)
                if found is None:
                    return
            elif found.position != chain.position and not self._is_zero(chain.position, found.position):
                self.report("gap", "What fills a segment up is not zero.", chain.position, chain.sequence + 1)
            yield from self._run(found)

    def _run(self, first: Frame) -> Iterator[Frame]:
        """The first frame and those that go on from it inside its segment."""
        for found in self._log.frames_from(first.position):
            same = self._log.start_of(found.position) == self._log.start_of(first.position)
            if found.position >= self._end or not same:
                return
            self._judge(found)
            self.chain = found.chain()
            yield found

    def _judge(self, found: Frame) -> None:
        self.frames += 1
        self.operations += found.operations
        try:
            if found.kind == frame.TIMELINE:
                self._instance = payload.decode_timeline(found.payload).instance
            elif found.kind == frame.TRANSACTION:
                self._judge_operations(found)
        except (struct.error, IndexError, ValueError) as error:
            self.report("payload", f"The frame cannot be read: {error}.", found.position, found.base + 1)

    def _judge_operations(self, found: Frame) -> None:
        head = payload.decode_transaction(found.payload, found.operations)
        for sequence, good, *_ in payload.checked_operations(
            found.payload,
            head.offset,
            found.operations,
            instance=self._instance,
            base=found.base,
            transaction_id=head.id,
            at_ms=found.at_ms,
        ):
            if not good:
                self.report("content", "The content is not what was committed.", found.position, sequence)

    def _is_zero(self, position: int, end: int) -> bool:
        while position < end:
            data = self._log.read(position, min(_CHUNK, end - position))
            if any(data):
                return False
            position = position + len(data) if data else end
        return True

    def _next_whole(self, position: int) -> Frame | None:
        """The next frame before the end that its own checksum vouches for."""
        reader = FrameReader(self._log)
        for start in self._log.starts():
            if start + self._log.capacity <= position or start >= self._end:
                continue
            begin = max(start, position)
            data = self._log.read(begin, self._log.capacity)
            at = data.find(_MAGIC)
            while at >= 0:
                place = begin + at - frame.MAGIC_OFFSET
                if begin <= place < self._end and place % frame.ALIGNMENT == 0:
                    found = reader.at(place)
                    if found is not None:
                        return found
                at = data.find(_MAGIC, at + 1)
        return None
