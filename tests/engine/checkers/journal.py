"""How a process writes down what it asks and is told, so that it can be judged after any kill.

One line of JSON each, appended by one call: before a call, after its answer, after each page of the feed. The times are
of the system's monotonic clock, which all processes share. A line torn by a kill was never written.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from feltdb_engine import Operation
from tests.engine.checkers.feed import Acknowledged, Entry, Gone, Page
from tests.engine.checkers.linear import Call
from tests.engine.checkers.registers import Change, Read, Refused, Write, Written
from tests.engine.checkers.registers import Entry as Seen


class Journal:
    """A process's journal, new or gone on with. `number` is the next call's, `cursor` how far the feed was read."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        data = path.read_bytes()
        torn = len(data) - (data.rfind(b"\n") + 1)
        if torn:
            os.ftruncate(self._fd, len(data) - torn)
        self.lines = list(read_lines(path))
        self.number = sum(line[0] == "begin" for line in self.lines)
        self.cursor = 0
        for line in self.lines:
            if line[0] in ("page", "gone"):
                self.cursor = line[3 if line[0] == "page" else 2]

    def _say(self, *line: Any) -> None:
        os.write(self._fd, orjson.dumps(line, default=tuple) + b"\n")

    def begin(self, request: Write | Read) -> int:
        """A call is about to be made; gives its number."""
        number = self.number
        self.number += 1
        kind = "read" if isinstance(request, Read) else "write"
        self._say("begin", number, time.monotonic_ns(), kind, request)
        return number

    def end(self, number: int, what: str, answer: Any = (), sequences: tuple[int, ...] = ()) -> None:
        """It was answered. `what`: seen, written, refused, nothing (an error that says so) or unknown."""
        self._say("end", number, time.monotonic_ns(), what, answer, sequences)

    def page(self, page: Page) -> None:
        """A page of the feed was read; the next one begins at its cursor."""
        self._say("page", *page)
        self.cursor = page.reached

    def gone(self, gone: Gone) -> None:
        """The feed refused a cursor as compacted; the next page begins at the floor."""
        self._say("gone", *gone)
        self.cursor = gone.floor

    def unanswered(self) -> Write | None:
        """The last transaction whose outcome this process does not know, to be asked again with its id."""
        open_calls: dict[int, Write] = {}
        for line in self.lines:
            if line[0] == "begin" and line[3] == "write":
                open_calls[line[1]] = _write(line[4])
            elif line[0] == "end" and line[3] != "unknown":
                open_calls.pop(line[1], None)
        return open_calls.popitem()[1] if open_calls else None


def entry_of(operation: Operation) -> Entry:
    """An operation of the feed as the judges look at it."""
    one = operation
    return Entry(one.sequence, one.transaction_id, one.kind, one.key, one.version, one.content_hash, one.at_ms)


def read_lines(path: Path) -> Iterator[list[Any]]:
    """The whole lines of a journal."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield orjson.loads(line)


def _write(members: list[Any]) -> Write:
    changes, requires, identity = members
    return Write(
        tuple(Change(*change) for change in changes), tuple((key, version) for key, version in requires), identity
    )


def read_journal(path: Path) -> tuple[list[Call], list[Page | Gone], list[Acknowledged]]:
    """Calls, what the feed gave, and what was acknowledged."""
    calls: dict[int, Call] = {}
    pages: list[Page | Gone] = []
    told: list[Acknowledged] = []
    asked_first: dict[str | None, int] = {}
    for word, *line in read_lines(path):
        if word == "page":
            after, entries, reached, head, floor = line
            pages.append(Page(after, tuple(Entry(*one) for one in entries), reached, head, floor))
        elif word == "gone":
            pages.append(Gone(*line))
        elif word == "begin":
            number, at, kind, members = line
            request = Read(tuple(members[0])) if kind == "read" else _write(members)
            calls[number] = Call(path.name, at, None, request, None)
            if isinstance(request, Write):
                asked_first.setdefault(request.id, at)
        else:
            number, at, what, answer, sequences = line
            call = calls[number]
            if what == "nothing":
                del calls[number]
            elif what == "refused":
                calls[number] = call._replace(end=at, answer=Refused())
            elif what == "seen":
                seen = tuple(None if one is None else Seen(*one) for one in answer)
                calls[number] = call._replace(end=at, answer=seen)
            elif what == "written":
                versions, duplicate = answer
                calls[number] = call._replace(end=at, answer=Written(tuple(versions), duplicate))
                told.append(Acknowledged(call.request.id, tuple(sequences), asked_first[call.request.id], at))
    return list(calls.values()), pages, told
