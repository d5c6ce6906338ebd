"""Going through a database of the view in short read transactions, while others write.

What is seen is not one moment: an entry changed meanwhile may be seen as it was before or as it is after.
"""

import time
from collections.abc import Iterator
from typing import Any

from feltdb_engine import limits
from feltdb_engine.view import View

Entries = list[tuple[bytes, bytes]]


def pages(target: View, database: Any) -> Iterator[Entries]:
    """All entries in key order, in pages of about a snapshot's block, each read in a transaction of its own."""
    last: bytes | None = None
    while True:
        found: Entries = []
        size = 0
        with target.read() as txn, txn.cursor(db=database) as cursor:
            there = cursor.first() if last is None else cursor.set_range(last)
            if there and last is not None and cursor.key() == last:
                there = cursor.next()
            if there:
                for item in cursor.iternext():
                    found.append(item)
                    size += len(item[0]) + len(item[1])
                    if size >= limits.SNAPSHOT_BLOCK_BYTES:
                        break
        if not found:
            return
        last = found[-1][0]
        yield found
        time.sleep(limits.COMPACTION_PAUSE_S)
