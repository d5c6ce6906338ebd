"""Is what readers of a feed were given right: ordered, unique, atomic per transaction, without a hole, resumable?

Every judge gives a list of faults, each beginning with its kind; none means right.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Entry(NamedTuple):
    """One operation, as far as a judge looks at it."""

    sequence: int
    transaction: str | None
    kind: str
    key: str
    version: int
    content_hash: str
    at_ms: int


class Page(NamedTuple):
    """What one reading of the feed gave: from the cursor `after` to the cursor `reached`."""

    after: int
    entries: tuple[Entry, ...]
    reached: int
    head: int
    floor: int


class Gone(NamedTuple):
    """The feed refused the cursor `after` as compacted; the reader goes on at the floor it was told."""

    after: int
    floor: int
    head: int


def faults_of_pages(pages: Sequence[Page | Gone]) -> list[str]:
    """One reader's pages, each asked for with the cursor the one before gave, also over the reader's own restarts."""
    found: list[str] = []
    heads = floors = 0
    for page in pages:
        if isinstance(page, Gone):
            if page.after >= page.floor:
                found.append(f"gone: the cursor {page.after} was refused, the floor is {page.floor}")
            heads, floors = max(heads, page.head), max(floors, page.floor)
            continue
        sequences = [entry.sequence for entry in page.entries]
        found += _faults_of_sequences(sequences, page.after)
        if page.reached != (sequences[-1] if sequences else page.after):
            found.append(f"hole: the page after {page.after} ends at {sequences[-1:]}, its cursor says {page.reached}")
        if page.reached > page.head:
            found.append(f"head: the cursor {page.reached} lies beyond the head {page.head}")
        if page.head < heads or page.floor < floors:
            found.append(f"head: head or floor went back to {page.head}, {page.floor}")
        if page.after < page.floor:
            found.append(f"floor: answered after {page.after}, below the floor {page.floor}")
        heads, floors = page.head, page.floor
    for one, two in pairwise(pages):
        stands = one.floor if isinstance(one, Gone) else one.reached
        if two.after != stands:
            found.append(f"resumed: a reader that was at {stands} went on after {two.after}")
    return found


def _faults_of_sequences(sequences: Iterable[int], after: int) -> list[str]:
    found = []
    last = after
    for sequence in sequences:
        if sequence == last:
            found.append(f"unique: {sequence} was given twice")
        elif sequence < last:
            found.append(f"ordered: {sequence} was given after {last}")
        elif sequence > last + 1:
            found.append(f"hole: {sequence} was given after {last}")
        last = sequence
    return found


def faults_of_truth(truth: Sequence[Entry], floor: int = 0, *, forgotten: bool = False) -> list[str]:
    """The feed after a floor: dense, transactions in one piece, each record's versions a chain its kinds agree with.

    Where deleted records were `forgotten` by a compaction, an insert may go on at any higher version.
    """
    found = _faults_of_sequences((entry.sequence for entry in truth), floor)
    finished: set[str] = set()
    for one, two in pairwise(truth):
        if one.transaction is not None and one.transaction != two.transaction:
            finished.add(one.transaction)
        if two.transaction in finished:
            found.append(f"atomic: transaction {two.transaction} goes on at {two.sequence} after another one")
        if two.at_ms < one.at_ms:
            found.append(f"time: it goes back at {two.sequence}")
    known: dict[str, Entry] = {}
    for entry in truth:
        before = known.get(entry.key)
        present = before is not None and before.kind != "delete"
        least = (before.version if before else 0) + 1
        jumps = forgotten and entry.kind == "insert" and entry.version > least
        if (before is not None or not floor) and entry.version != least and not jumps:
            found.append(f"versions: {entry.key} goes to version {entry.version} at {entry.sequence}")
        if (before is not None or not floor) and (entry.kind == "insert") == present:
            found.append(f"kinds: {entry.kind} of {entry.key} at {entry.sequence}, present: {present}")
        known[entry.key] = entry
    return found


def faults_against_truth(pages: Sequence[Page | Gone], truth: Sequence[Entry]) -> list[str]:
    """What a reader was given is what is there, and no page ended inside a transaction."""
    by_sequence = {entry.sequence: entry for entry in truth}
    found = []
    for page in pages:
        if isinstance(page, Gone):
            continue
        for entry in page.entries:
            kept = by_sequence.get(entry.sequence)
            if kept is None:
                found.append(f"lost: {entry.sequence} was given and is not there")
            elif kept != entry:
                found.append(f"changed: {entry.sequence} was given as {entry} and is {kept}")
        last, after = by_sequence.get(page.reached), by_sequence.get(page.reached + 1)
        if last and after and last.transaction is not None and last.transaction == after.transaction:
            found.append(f"atomic: a page ended at {page.reached}, inside {last.transaction}")
    return found


class Acknowledged(NamedTuple):
    """A transaction a writer was told is committed: its sequences, and when it asked and was told."""

    transaction: str
    sequences: tuple[int, ...]
    begin: int
    end: int


def faults_of_acknowledged(told: Sequence[Acknowledged], truth: Sequence[Entry]) -> list[str]:
    """Nothing acknowledged is lost or doubled, each lies where its writer was told, and in the order of real time."""
    by_sequence = {entry.sequence: entry for entry in truth}
    sizes = Counter(entry.transaction for entry in truth)
    found = []
    for one in told:
        there = [by_sequence[sequence].transaction for sequence in one.sequences if sequence in by_sequence]
        if there != [one.transaction] * len(one.sequences):
            found.append(f"lost: {one.transaction} was acknowledged at {one.sequences}, where {there} is")
        elif sizes[one.transaction] != len(one.sequences):
            found.append(f"twice: {one.transaction} has {sizes[one.transaction]} operations, {len(one.sequences)} told")
    ended = highest = 0
    by_end = sorted((one for one in told if one.sequences), key=lambda one: one.end)
    for one in sorted((one for one in told if one.sequences), key=lambda one: one.begin):
        while ended < len(by_end) and by_end[ended].end < one.begin:
            highest = max(highest, by_end[ended].sequences[-1])
            ended += 1
        if one.sequences[0] <= highest:
            found.append(f"real time: {one.transaction} began after {highest} was told, and lies at {one.sequences[0]}")
    return found


def faults_of_state(state: Mapping[str, tuple[int, int]], truth: Sequence[Entry]) -> list[str]:
    """The live records, as key: (version, sequence), are what the whole feed leaves."""
    left: dict[str, tuple[int, int]] = {}
    for entry in truth:
        left[entry.key] = (entry.version, entry.sequence)
        if entry.kind == "delete":
            del left[entry.key]
    return [
        f"state: {key} is {state.get(key)}, the feed leaves {left.get(key)}"
        for key in sorted(state.keys() | left.keys())
        if state.get(key) != left.get(key)
    ]
