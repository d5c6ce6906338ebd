"""The log: frames in segment files of equal capacity. A position divided by the capacity names the segment.

    log/00000000000000000000.seg    bytes 0 .. capacity-1 of the log; named by its first position, 20 digits
    log/00000000000067108864.seg    the next one

    | segment frame | frame | frame | ... | zeroes up to the prepared size, at most the capacity |

A segment's first frame is a segment frame (`payload.py`) that continues the chain of the segment before, which was
forced before it was written. Where a frame no longer fits, the rest stays zero and the log goes on in the next file.
Files are filled with zeroes and forced ahead of need, so that forcing a frame changes no file size.

Not here: who may append (`writer.py`), what a bad frame means (`recovery.py`).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from feltdb_engine import frame, limits, payload
from feltdb_engine.files import File, Files
from feltdb_engine.frame import Chain, Frame

SUFFIX = ".seg"
OPEN_FILES_MAX = 16
"""Segments that a process keeps open at once, of one store."""


def segment_name(start: int) -> str:
    """The file name of the segment that starts at this position."""
    return f"{start:020d}{SUFFIX}"


class Log:
    """The segment files of one store, as one array of bytes. Any number of threads may read."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        store_id: bytes,
        capacity: int,
        refuse_elsewhere: Callable[[], None] = lambda: None,
    ) -> None:
        """`refuse_elsewhere` raises where the directory is no longer the one that was opened."""
        self.files = files
        self.directory = directory
        self.store_id = store_id
        self.capacity = capacity
        self._open: dict[int, File] = {}
        self._refuse_elsewhere = refuse_elsewhere

    def start_of(self, position: int) -> int:
        """The first position of the segment that holds `position`."""
        return position - position % self.capacity

    def starts(self) -> list[int]:
        """The first positions of all segment files there are, ascending."""
        names = (name for name in self.files.names(self.directory) if name.endswith(SUFFIX))
        return [int(name.removesuffix(SUFFIX)) for name in names]

    def path(self, start: int) -> Path:
        """The segment file that starts there."""
        return self.directory / segment_name(start)

    def file(self, start: int, *, create: bool = False) -> File:
        """The open file of the segment that starts there. Raises FileNotFoundError."""
        file = self._open.get(start)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                for oldest in list(self._open)[:1]:  # in one step: other threads add and remove meanwhile
                    self._open.pop(oldest, None)
            self._refuse_elsewhere()
            file = self.files.open(self.path(start), create=create)
            self._open[start] = file
        return file

    def forget(self) -> None:
        """Let go of all files; they are opened anew when needed, and closed once no thread reads them."""
        self._open.clear()

    def forget_before(self, position: int) -> None:
        """Let go of the files before the segment that starts at `position`: compaction has removed their names."""
        for start in [start for start in list(self._open) if start < position]:
            self._open.pop(start, None)

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes, never past the segment; what was never written reads as an end."""
        start = self.start_of(position)
        try:
            file = self.file(start)
        except FileNotFoundError:
            return b""
        return file.read(position - start, min(size, start + self.capacity - position))

    def append(self, position: int, data: bytes, *, hurry: bool) -> None:
        """Write at a position inside prepared space; not yet forced, but with `hurry` on its way to the disk."""
        start = self.start_of(position)
        file = self.file(start)
        file.write(position - start, data)
        if hurry:
            file.hurry(position - start, len(data))

    def zero(self, position: int, end: int) -> None:
        """Take back what was appended in [position, end) of one segment, and force that."""
        start = self.start_of(position)
        file = self.file(start)
        step = limits.PREPARE_STEP_BYTES
        for at in range(position, end, step):
            file.write(at - start, bytes(min(step, end - at)))
        file.force()

    def force(self, position: int) -> None:
        """Force the segment that holds the byte before `position`; those before it were forced at rotation."""
        self.file(self.start_of(position - 1)).force()

    def prepare(self, prepared: int) -> int:
        """Zero-fill and force one step from `prepared` on, creating the next file where one ends. Gives the new end."""
        start = self.start_of(prepared)
        if prepared == start and not self._is_there(start):
            file = self.file(start, create=True)
        else:
            file = self.file(start)
        size = min(limits.PREPARE_STEP_BYTES, start + self.capacity - prepared)
        file.write(prepared - start, bytes(size))
        file.force()
        if prepared == start:
            self.files.force_names(self.directory)
        return prepared + size

    def _is_there(self, start: int) -> bool:
        return segment_name(start) in self.files.names(self.directory)

    def fits(self, position: int, length: int) -> bool:
        """Whether a frame of this length may start at `position` of its segment."""
        return position + length <= self.start_of(position) + self.capacity and position % self.capacity != 0

    def next_start(self, position: int) -> int:
        """Where the next segment starts, seen from the end of a frame."""
        return self.start_of(position - 1) + self.capacity

    def segment_frame(self, chain: Chain, durable: int) -> tuple[bytes, Frame]:
        """The first frame of the segment after `chain`."""
        start = self.next_start(chain.position) if chain.position else 0
        return frame.encode(
            chain._replace(position=start),
            kind=frame.SEGMENT,
            operations=0,
            durable=durable,
            at_ms=chain.at_ms,
            payload=payload.encode_segment(self.store_id, start, self.capacity),
        )

    def owns(self, position: int) -> bool:
        """Whether the segment that holds `position` is one of this store, by its first frame."""
        start = self.start_of(position)
        first = FrameReader(self).at(start)
        return first is not None and payload.segment_matches(first.payload, self.store_id, start, self.capacity)

    def begins_at(self, start: Chain) -> bool:
        """Whether the oldest segment kept, where its first frame can be read, goes on from `start`."""
        at = self.next_start(start.position) if start.position else 0
        first = FrameReader(self).at(at)
        return first is None or frame.follows(first, start._replace(position=at))

    def frames(self, chain: Chain) -> Iterator[Frame]:
        """The whole frames that go on from `chain`, up to the first place where none does."""
        reader = FrameReader(self)
        while (found := self._next(reader, chain)) is not None:
            yield found
            chain = found.chain()

    def frames_from(self, position: int) -> Iterator[Frame]:
        """The frame at a position known to begin one, and those that go on from it."""
        reader = FrameReader(self)
        found = reader.at(position)
        while found is not None:
            yield found
            found = self._next(reader, found.chain())

    def _next(self, reader: "FrameReader", chain: Chain) -> Frame | None:
        if chain.position % self.capacity:
            found = reader.at(chain.position)
            if found is not None:
                fitting = found.kind != frame.SEGMENT and frame.follows(found, chain)
                return found if fitting else None
            if reader.claims(chain.position):
                return None
        start = self.next_start(chain.position) if chain.position else 0
        found = reader.at(start)
        if found is None or found.kind != frame.SEGMENT:
            return None
        if not payload.segment_matches(found.payload, self.store_id, start, self.capacity):
            return None
        return found if frame.follows(found, chain._replace(position=start)) else None


class FrameReader:
    """Reads frames one after the other in large chunks. Not for threads to share."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._data = b""
        self._begin = 0
        self._chunk = limits.READ_CHUNK_MIN_BYTES

    def _have(self, position: int, size: int) -> bool:
        offset = position - self._begin
        return 0 <= offset and offset + size <= len(self._data)

    def _load(self, position: int, size: int) -> None:
        self._data = self._log.read(position, max(size, self._chunk))
        self._begin = position
        self._chunk = min(self._chunk * 4, limits.READ_CHUNK_MAX_BYTES)

    def _length(self, position: int) -> int:
        if not self._have(position, frame.HEADER_BYTES):
            self._load(position, frame.HEADER_BYTES)
        if not self._have(position, frame.HEADER_BYTES):
            return 0
        return frame.length_at(self._data, position - self._begin)

    def claims(self, position: int) -> bool:
        """Whether a header at `position` claims to be a frame."""
        return self._length(position) != 0

    def at(self, position: int) -> Frame | None:
        """The frame at `position`, judged alone, or None."""
        length = self._length(position)
        if not frame.HEADER_BYTES <= length <= self._log.capacity:
            return None
        if not self._have(position, length):
            self._load(position, length)
        return frame.decode(self._data, position - self._begin, position)
