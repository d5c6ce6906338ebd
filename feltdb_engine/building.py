"""Building indexes and clearing dropped ones, one bounded batch at a time, beside `apply`, which keeps all entries.

A batch only adds what `apply` would have added, or removes what nobody reads: replaying the log needs none of it, and
a batch that is lost is done again. Not here: declaring (`declaring.py`).
"""

from feltdb_engine import indexes, limits, view
from feltdb_engine.indexes import Catalogue, Definition
from feltdb_engine.values import loads
from feltdb_engine.view import Transaction, View


def pending(txn: Transaction) -> bool:
    """Whether a batch would find something to do."""
    found = indexes.catalogue(txn)
    return bool(found.dropped) or any(one.progress is not None for one in found.definitions)


def batch(target: View, txn: Transaction) -> None:
    """Do one batch of what is pending; the caller commits."""
    found = indexes.catalogue(txn)
    if found.dropped:
        _clear(target, txn, found)
        return
    unfinished = next((one for one in found.definitions if one.progress is not None), None)
    if unfinished is not None:
        _extend(target, txn, found, unfinished)


def finish(target: View) -> None:
    """Do all that is pending. The caller has the view to itself, or the turn."""
    while True:
        with target.write() as txn:
            if not pending(txn):
                return
            batch(target, txn)


def _clear(target: View, txn: Transaction, found: Catalogue) -> None:
    number = found.dropped[0]
    prefix = indexes.NUMBER.pack(number)
    with txn.cursor(db=target.index) as cursor:
        for _ in range(limits.INDEX_BATCH_RECORDS):
            if not cursor.set_range(prefix) or not cursor.key().startswith(prefix):
                indexes.store(txn, found._replace(dropped=found.dropped[1:]))
                return
            cursor.delete()


def _extend(target: View, txn: Transaction, found: Catalogue, one: Definition) -> None:
    kept = indexes.ready(one)
    prefix = view.record_key(one.collection.encode(), b"")
    begin = prefix + (one.progress or "").encode()
    entries: list[tuple[bytes, bytes]] = []
    last, more, looked = b"", False, 0
    with txn.cursor(db=target.records) as cursor:
        there = cursor.set_range(begin)
        if there and one.progress and cursor.key() == begin:
            there = cursor.next()
        if there:
            for key, entry in cursor.iternext():
                if not key.startswith(prefix):
                    break
                if looked == limits.INDEX_BATCH_RECORDS:
                    more = True
                    break
                looked += 1
                last = key[len(prefix) :]
                made = kept.entry(loads(entry[view.ENTRY_BYTES :]), last)
                if made is not None:
                    entries.append(made)
    entries.sort()
    with txn.cursor(db=target.index) as cursor:
        cursor.putmulti(entries)
    indexes.store(txn, found.replace(one._replace(progress=last.decode() if more else None)))
