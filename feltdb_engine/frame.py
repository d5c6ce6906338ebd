"""The frame: one checksummed step of the log. This module alone reads and writes its layout.

All numbers are little-endian. Positions are byte offsets over the whole log. A frame:

     0  u32  crc               CRC-32C of bytes 4 to the end, seeded with the frame before it
     4  u32  length            of the whole frame, padding included; a multiple of 8; 0 = nothing here
     8  u32  magic             "FLT1"
    12  u32  previous_crc      the seed, so that a frame past damage can still be judged alone
    16  u8   kind              1 transaction, 2 timeline, 3 recovery, 4 acknowledgement, 5 segment, 6 index, 7 pin,
                              8 compaction, 9 contract
    17  u8   flags             0 (a reader refuses bits it does not know)
    18  u16  reserved          0
    20  u32  operations        in it; they have the sequences base+1 .. base+operations
    24  u64  epoch             random; changed only by a recovery frame, so that cut frames never come back
    32  u64  durable           D: the durable position known when this frame was written
    40  u64  base              the sequence before it
    48  i64  at_ms             time of the transaction; never decreases
    56  u32  payload_length    bytes of payload; zeroes pad it to a multiple of 8
    60  u32  reserved          0
    64       payload           see `payload.py`

Frames lie one after the other in segment files (`segment.py`), never across two. After the last one come zeroes.
"""

import struct
from typing import Final, NamedTuple

import google_crc32c

HEADER: Final = struct.Struct("<IIIIBBHIQQQqII")
HEADER_BYTES: Final = HEADER.size
MAGIC: Final = int.from_bytes(b"FLT1", "little")
MAGIC_OFFSET: Final = 8
ALIGNMENT: Final = 8
FORMAT: Final = 0

TRANSACTION: Final = 1
TIMELINE: Final = 2
RECOVERY: Final = 3
ACKNOWLEDGEMENT: Final = 4
SEGMENT: Final = 5
INDEX: Final = 6
PIN: Final = 7
COMPACTION: Final = 8
CONTRACT: Final = 9
KINDS: Final = frozenset((TRANSACTION, TIMELINE, RECOVERY, ACKNOWLEDGEMENT, SEGMENT, INDEX, PIN, COMPACTION, CONTRACT))

_BODY: Final = struct.Struct("<IIIBBHIQQQqII")
_CRC: Final = struct.Struct("<I")
_extend = google_crc32c.extend


class Chain(NamedTuple):
    """The state a next frame goes on from: where, with which seed, epoch and sequence, and not before which time."""

    position: int
    crc: int
    epoch: int
    sequence: int
    at_ms: int


class Frame(NamedTuple):
    """A frame that was read and judged whole."""

    position: int
    end: int
    crc: int
    previous_crc: int
    kind: int
    flags: int
    operations: int
    epoch: int
    durable: int
    base: int
    at_ms: int
    payload: bytes

    @property
    def last(self) -> int:
        """The sequence after it."""
        return self.base + self.operations

    def chain(self) -> Chain:
        """The state the next frame goes on from."""
        return Chain(self.end, self.crc, self.epoch, self.base + self.operations, self.at_ms)


def encoded_bytes(payload_length: int) -> int:
    """The length of a frame that carries so many bytes."""
    return (HEADER_BYTES + payload_length + ALIGNMENT - 1) & -ALIGNMENT


def encode(
    chain: Chain, *, kind: int, operations: int, durable: int, at_ms: int, payload: bytes, epoch: int | None = None
) -> tuple[bytes, Frame]:
    """The bytes of the frame that goes on from `chain`, and the frame itself. `epoch` is given by a recovery only."""
    size = len(payload)
    length = (HEADER_BYTES + size + ALIGNMENT - 1) & -ALIGNMENT
    in_epoch = chain.epoch if epoch is None else epoch
    head = _BODY.pack(
        length, MAGIC, chain.crc, kind, 0, 0, operations, in_epoch, durable, chain.sequence, at_ms, size, 0
    )
    body = b"".join((head, payload, bytes(length - HEADER_BYTES - size)))
    crc = _extend(chain.crc, body)
    position = chain.position
    frame = Frame(
        position,
        position + length,
        crc,
        chain.crc,
        kind,
        0,
        operations,
        in_epoch,
        durable,
        chain.sequence,
        at_ms,
        payload,
    )
    return _CRC.pack(crc) + body, frame


def length_at(data: bytes, offset: int) -> int:
    """The length a frame at `offset` claims, 0 where there is none."""
    return int.from_bytes(data[offset + 4 : offset + 8], "little")


def decode(data: bytes, offset: int, position: int) -> Frame | None:
    """The frame at `offset` of `data`, which is `position` in the log, judged by its own seed; or None."""
    if len(data) - offset < HEADER_BYTES:
        return None
    (crc, length, magic, previous, kind, flags, reserved, operations, epoch, durable, base, at_ms, size, reserved2) = (
        HEADER.unpack_from(data, offset)
    )
    if magic != MAGIC or length % ALIGNMENT or length != encoded_bytes(size) or len(data) - offset < length:
        return None
    if _extend(previous, data[offset + 4 : offset + length]) != crc:
        return None
    if kind not in KINDS or flags or reserved or reserved2 or durable > position:
        return None
    payload = data[offset + HEADER_BYTES : offset + HEADER_BYTES + size]
    return Frame(
        position, position + length, crc, previous, kind, flags, operations, epoch, durable, base, at_ms, payload
    )


def follows(frame: Frame, chain: Chain) -> bool:
    """Whether the frame is the one that goes on from `chain`."""
    return (
        frame.position == chain.position
        and frame.previous_crc == chain.crc
        and frame.base == chain.sequence
        and frame.at_ms >= chain.at_ms
        and (frame.epoch == chain.epoch or frame.kind == RECOVERY)
    )
