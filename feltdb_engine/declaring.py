"""Declaring and dropping indexes, and building them while others read and write."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Final

import orjson

from feltdb_engine import building, frame, indexes, limits
from feltdb_engine.core import Core
from feltdb_engine.errors import InvalidQuery
from feltdb_engine.indexes import Catalogue, Definition
from feltdb_engine.model import IndexInfo
from feltdb_engine.values import encode_collection, encode_json
from feltdb_engine.view import State, Transaction
from feltdb_engine.where import field_of
from feltdb_engine.writer import Outcome, Writer, nothing_done

_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{limits.INDEX_NAME_MAX_CHARS - 1}}}")


class Declarer:
    """The indexes of an open store."""

    def __init__(self, core: Core, writer: Writer) -> None:
        self._core = core
        self._writer = writer

    def declare(self, collection: str, fields: Sequence[str], name: str | None, until: float | None) -> IndexInfo:
        """Declare and build, to the end or until `until`. The same declaration again goes on with the build."""
        encode_collection(collection)
        paths = _checked(fields)
        named = "-".join(paths) if name is None else name
        if _NAME.fullmatch(named) is None:
            raise InvalidQuery("An index's name is 1 to 128 of A-Z a-z 0-9 _ . -", pointer="/name")
        said = {"act": "declare", "collection": collection, "name": named, "fields": list(paths)}

        def act(txn: Transaction, state: State) -> Outcome:
            found = indexes.catalogue(txn)
            known = found.find(collection, named)
            if known is None:
                _room(found, collection)
                return self._writer.append_own(txn, state, frame.INDEX, orjson.dumps(said))
            if known.fields != paths:
                raise InvalidQuery("There is an index of that name over other fields.", pointer="/name")
            return nothing_done(state)

        self._run(act)
        self.build(until)
        return self.find(collection, named)

    def drop(self, collection: str, name: str, until: float | None) -> bool:
        """Drop; its entries go in batches, those left at `until` with the next build. False where there was none."""
        encode_collection(collection)
        there = False
        said = {"act": "drop", "collection": collection, "name": name}

        def act(txn: Transaction, state: State) -> Outcome:
            nonlocal there
            known = indexes.catalogue(txn).find(collection, name)
            there = known is not None and not known.exact
            if not there:
                return nothing_done(state)
            return self._writer.append_own(txn, state, frame.INDEX, orjson.dumps(said))

        self._run(act)
        self.build(until)
        return there

    def all(self, collection: str | None) -> list[IndexInfo]:
        """The declared indexes, oldest first."""
        with self._core.view.read() as txn:
            found = indexes.catalogue(txn).definitions
        return [_info(one) for one in found if not one.exact and collection in (None, one.collection)]

    def find(self, collection: str, name: str) -> IndexInfo:
        """One of them. Raises InvalidQuery where it was dropped meanwhile."""
        for one in self.all(collection):
            if one.name == name:
                return one
        raise InvalidQuery("The index was dropped meanwhile.", pointer="/name")

    def build(self, until: float | None) -> None:
        """Build and clear what is pending, in batches that each take a turn, to the end or until `until`."""
        with self._core.view.read() as txn:
            more = building.pending(txn)

        def act(txn: Transaction, state: State) -> Outcome:
            nonlocal more
            more = building.pending(txn)
            if more:
                self._core.files.step("index batch")
                building.batch(self._core.view, txn)
                self._core.files.step("index batch done")
                txn.commit()
                self._core.files.step("index batch committed")
            return nothing_done(state)

        while more and (until is None or time.monotonic() < until):
            self._run(act)

    def _run(self, act: Callable[[Transaction, State], Outcome]) -> None:
        self._writer.own(act, time.monotonic() + limits.TURN_WAIT_S)


def _checked(fields: Sequence[str]) -> tuple[str, ...]:
    if isinstance(fields, str) or not 1 <= len(fields) <= limits.INDEX_MAX_FIELDS or len(set(fields)) != len(fields):
        raise InvalidQuery(f"An index has 1 to {limits.INDEX_MAX_FIELDS} different fields.", pointer="/fields")
    for place, path in enumerate(fields):
        field_of(path, f"/fields/{place}")
        encode_json(path, f"/fields/{place}")
    return tuple(fields)


def _room(found: Catalogue, collection: str) -> None:
    declared = [one for one in found.definitions if not one.exact]
    here = sum(one.collection == collection for one in declared)
    if here >= limits.INDEX_MAX_PER_COLLECTION or len(declared) >= limits.INDEX_MAX_PER_STORE:
        raise InvalidQuery(
            f"At most {limits.INDEX_MAX_PER_COLLECTION} indexes a collection, {limits.INDEX_MAX_PER_STORE} a store.",
            pointer="/name",
        )


def _info(one: Definition) -> IndexInfo:
    return IndexInfo(collection=one.collection, name=one.name, fields=one.fields, complete=one.progress is None)
