"""Records as lines of JSON, of one moment: what `importing.py` takes.

    {"collection":"orders","id":"1001","version":3,"sequence":120,"updated_at_ms":1700000000000,"value":{...}}

Collections in name order, records in key order, the value byte for byte as it is kept.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import orjson

from feltdb_engine import limits
from feltdb_engine.moment import Moment
from feltdb_engine.past import Past
from feltdb_engine.values import encode_collection, encode_key
from feltdb_engine.view import ENTRY, ENTRY_BYTES
from feltdb_engine.walk import Progress

_BATCH_RECORDS: Final = 500


def export(
    past: Past, collections: Sequence[str] | None, after: str | None, progress: Progress | None
) -> Iterator[bytes]:
    """Whole lines, some at a time, after a key. Holds no read transaction while the caller has them.

    Raises InvalidKey, and ScanLimitExceeded where too much is written meanwhile.
    """
    counts = {one.name: one.records for one in past.collections()}
    names = sorted(counts if collections is None else set(collections), key=str.encode)
    begin = None if after is None else encode_key(after)
    total, done = sum(counts.get(name, 0) for name in names), 0
    for name in names:
        collection, last = encode_collection(name), b""
        if begin is not None and collection <= begin[0]:
            if collection < begin[0]:
                continue
            last = begin[1]
        while True:
            with past._moment((name,), None) as moment:
                lines, count, last = _lines(moment, collection, last)
            if not count:
                break
            done += count
            yield b"".join(lines)
            if progress is not None:
                progress(min(done, total), total)


def _lines(moment: Moment, collection: bytes, after: bytes) -> tuple[list[bytes], int, bytes]:
    lines: list[bytes] = []
    size, last = 0, after
    named = b'{"collection":"' + collection + b'","id":'
    for record_id, entry in islice(moment.entries(collection, after or None), _BATCH_RECORDS):
        version, sequence, at_ms = ENTRY.unpack_from(entry)
        numbers = b',"version":%d,"sequence":%d,"updated_at_ms":%d,"value":' % (version, sequence, at_ms)
        lines += (named, orjson.dumps(record_id.decode()), numbers, entry[ENTRY_BYTES:], b"}\n")
        last = record_id
        size += len(entry)
        if size > limits.EXPORT_CHUNK_BYTES:
            break
    return lines, len(lines) // 5, last
