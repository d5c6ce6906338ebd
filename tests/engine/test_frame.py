"""The frame's layout, byte for byte, and what is no frame."""

import hashlib
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import google_crc32c
import pytest

from feltdb_engine import frame, payload
from feltdb_engine.frame import Chain

CHAIN = Chain(position=4096, crc=0x01020304, epoch=0x1122334455667788, sequence=9, at_ms=1000)


def made(content: bytes = b"payload") -> tuple[bytes, frame.Frame]:
    return frame.encode(CHAIN, kind=frame.TRANSACTION, operations=2, durable=4000, at_ms=1001, payload=content)


def test_the_layout_is_the_one_drawn() -> None:
    data, _ = made()
    expected = (
        bytes.fromhex(
            "48000000"  # length 72
            "464c5431"  # FLT1
            "04030201"  # the CRC before
            "01 00 0000"  # kind, flags, reserved
            "02000000"  # operations
            "8877665544332211"  # epoch
            "a00f000000000000"  # durable 4000
            "0900000000000000"  # base
            "e903000000000000"  # at_ms 1001
            "07000000 00000000"  # payload length, reserved
        )
        + b"payload\0"
    )
    assert data[4:] == expected
    assert data[:4] == google_crc32c.extend(CHAIN.crc, expected).to_bytes(4, "little")


def test_a_frame_reads_back_and_follows_its_chain() -> None:
    data, written = made()
    assert frame.decode(data, 0, 4096) == written
    assert frame.decode(b"before" + data, 6, 4096) == written
    assert frame.follows(written, CHAIN)
    assert written.chain() == Chain(4096 + 72, written.crc, CHAIN.epoch, 11, 1001)


@pytest.mark.parametrize("at", range(72))
def test_a_changed_byte_is_no_frame(at: int) -> None:
    data, _ = made()
    changed = bytearray(data)
    changed[at] ^= 0x40
    assert frame.decode(bytes(changed), 0, 4096) is None


@pytest.mark.parametrize(
    "chain",
    [
        CHAIN._replace(position=4104),
        CHAIN._replace(crc=5),
        CHAIN._replace(epoch=5),
        CHAIN._replace(sequence=8),
        CHAIN._replace(at_ms=2000),
    ],
)
def test_a_frame_of_another_chain_does_not_follow(chain: Chain) -> None:
    assert not frame.follows(made()[1], chain)


def test_a_claim_of_durability_beyond_itself_is_no_frame() -> None:
    data, _ = frame.encode(CHAIN, kind=frame.TRANSACTION, operations=0, durable=5000, at_ms=1001, payload=b"")
    assert frame.decode(data, 0, 4096) is None


def test_a_cut_frame_is_no_frame() -> None:
    data, _ = made()
    assert all(frame.decode(data[:size], 0, 4096) is None for size in range(len(data)))


def test_an_operation_reads_back() -> None:
    one = payload.LoggedOperation(payload.UPDATE, 1, 7, 3, b"", b"items", "ä:1".encode(), b'{"n":1}')
    head = payload.encode_transaction_head(b"id", bytes(32), b'{"subject":"s"}', 3, (7, 0, 1))
    said = bytes(16), 5, b"id", 1000
    data = head + b"".join(payload.encode_operation(*said, one)) * 2
    found = payload.decode_transaction(data, 2)
    assert (found.id, found.actor, found.mutations, found.versions) == (b"id", b'{"subject":"s"}', 3, (7, 0, 1))
    kept = one._replace(content_hash=content_hash(*said, one))
    assert list(payload.decode_operations(data, found.offset, 2)) == [kept, kept]
    checked = payload.checked_operations(
        data, found.offset, 2, instance=bytes(16), base=4, transaction_id=b"id", at_ms=1000
    )
    said_of_it = (kept.kind, kept.flags, kept.version, kept.content_hash, kept.collection, kept.id, kept.value)
    assert list(checked) == [(5, True, *said_of_it), (6, False, *said_of_it)]


def content_hash(instance: bytes, sequence: int, transaction: bytes, at_ms: int, one: payload.LoggedOperation) -> bytes:
    """How it is made, written down once more: stores that exist depend on it."""
    lengths = len(one.collection), len(one.id), len(transaction), len(one.value)
    said = struct.pack("<16sQQqBBHHI", instance, sequence, one.version, at_ms, one.kind, *lengths)
    return hashlib.sha256(said + transaction + one.collection + one.id + one.value).digest()


def test_the_content_hash_covers_every_member() -> None:
    def hashed(members: list[Any]) -> bytes:
        instance, sequence, transaction, kind, name, record_id, version, value, at_ms = members
        one = payload.LoggedOperation(kind, 0, version, 0, b"", name, record_id, value)
        data = b"".join(payload.encode_operation(instance, sequence, transaction, at_ms, one))
        return next(payload.decode_operations(data, 0, 1)).content_hash

    members = [bytes(16), 1, b"t", payload.INSERT, b"a", b"1", 1, b"{}", 1000]
    other = [b"i" * 16, 2, b"u", payload.UPDATE, b"b", b"2", 2, b"[]", 1001]
    first = hashed(members)
    for index, changed in enumerate(other):
        varied = [*members]
        varied[index] = changed
        assert hashed(varied) != first
    assert hashed([*members[:4], b"a1", b"", *members[6:]]) != first


@pytest.mark.parametrize(("module", "pictures"), [(frame, 1), (payload, 2)])
def test_the_page_draws_frame_transaction_and_operation_as_their_modules_do(module: ModuleType, pictures: int) -> None:
    page = (Path(__file__).parents[2] / "docs" / "engine.md").read_text()
    drawn = [part for part in str(module.__doc__).split("\n\n") if part.startswith("     0  u")]
    assert len(drawn) >= pictures
    for picture in drawn[:pictures]:
        assert picture in page
