"""The client: one method for each thing the API does with state.

Every write carries a transaction id, given by the caller or made here, so that it is repeated safely. Not here:
repeating (`transport.py`), shapes (`model.py`).
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from feltdb_client import model
from feltdb_client.asking import Asking, path_of
from feltdb_client.errors import FeedCompacted, NotFound
from feltdb_client.model import Changes, JSONObject, Outcome, Page, Record
from feltdb_client.retry import Patience
from feltdb_client.streaming import Streaming
from feltdb_client.transport import Transport
from feltdb_client.working import Working

START = "start"
NOW = "now"


class FeltDB(Asking, Streaming, Working):
    """A client for one namespace. Thread-safe; close it, or use it in a `with` statement.

    `url` is the server's, as `http://127.0.0.1:8000`. `namespace` is needed with a key for several. `timeout_s` bounds
    one attempt, `patience` all attempts of one call. Raises ValueError for a url or key that can be none.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        namespace: str | None = None,
        timeout_s: float = 15.0,
        patience: Patience | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._transport = Transport(
            url,
            key=key,
            namespace=namespace,
            timeout_s=timeout_s,
            patience=patience or Patience(),
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    # Records

    def get(self, collection: str, record_id: str) -> Record | None:
        """Return the record, None where there is none."""
        try:
            return model.record(self._transport.read("GET", path_of(collection, record_id)))
        except NotFound:
            return None

    def page(self, collection: str, *, limit: int = 100, cursor: str | None = None) -> Page:
        """Return a page of the collection in key order."""
        parameters = {"limit": limit, **({"cursor": cursor} if cursor is not None else {})}
        return _page(self._transport.read("GET", path_of(collection), parameters=parameters))

    def records(self, collection: str, *, batch: int = 500) -> Iterator[Record]:
        """Yield every record of the collection in key order, read page by page."""
        cursor: str | None = None
        while True:
            page = self.page(collection, limit=batch, cursor=cursor)
            yield from page.records
            cursor = page.next_cursor
            if cursor is None:
                return

    def collections(self) -> dict[str, int]:
        """Return the collections that hold records, each with how many."""
        found: dict[str, int] = {}
        cursor: str | None = None
        while True:
            parameters = {"limit": 1000, **({"cursor": cursor} if cursor is not None else {})}
            body = self._transport.read("GET", "/v1/collections", parameters=parameters)
            found.update({each["name"]: each["records"] for each in body["collections"]})
            cursor = body["next_cursor"]
            if cursor is None:
                return found

    def create(
        self, collection: str, value: JSONObject, *, record_id: str | None = None, transaction_id: str | None = None
    ) -> Record:
        """Create a record, under an id the server makes if none is given. Raises Conflict where it exists."""
        body = dict(value) if record_id is None else {**value, "id": record_id}
        return model.record(self._write("POST", path_of(collection), body, transaction_id))

    def put(
        self,
        collection: str,
        record_id: str,
        value: JSONObject,
        *,
        version: int | None = None,
        transaction_id: str | None = None,
    ) -> Record:
        """Store the whole value; with `version`, only at that version (ApiError IF_MATCH_FAILED otherwise)."""
        answer = self._write("PUT", path_of(collection, record_id), value, transaction_id, version=version)
        return model.record(answer)

    def merge(
        self,
        collection: str,
        record_id: str,
        patch: JSONObject,
        *,
        version: int | None = None,
        transaction_id: str | None = None,
    ) -> Record:
        """Merge a patch (RFC 7396), in one step whoever else writes. Raises NotFound."""
        answer = self._write("PATCH", path_of(collection, record_id), patch, transaction_id, version=version)
        return model.record(answer)

    def delete(
        self, collection: str, record_id: str, *, version: int | None = None, transaction_id: str | None = None
    ) -> bool:
        """Remove the record; False where there is none."""
        try:
            self._write("DELETE", path_of(collection, record_id), None, transaction_id, version=version)
        except NotFound:
            return False
        return True

    def compare_and_set(
        self,
        collection: str,
        record_id: str,
        expected_version: int,
        value: JSONObject,
        *,
        transaction_id: str | None = None,
    ) -> Record:
        """Store the value if the record has this version (0 = absent). Raises VersionConflict."""
        body = {"expectedVersion": expected_version, "value": value}
        return model.record(self._write("POST", path_of(collection, record_id) + "/cas", body, transaction_id)["item"])

    # Transactions

    def commit(
        self,
        operations: Sequence[Mapping[str, Any]],
        *,
        preconditions: Sequence[Mapping[str, Any]] = (),
        fences: Sequence[str] = (),
        transaction_id: str | None = None,
    ) -> Outcome:
        """Commit several changes (`put`, `merge`, `delete`), whole or not at all.

        `fences` are tokens of `read_basis`. Raises PreconditionFailed, FenceBroken.
        """
        named = transaction_id or _new_id()
        body: dict[str, Any] = {"transactionId": named, "operations": list(operations)}
        if preconditions:
            body["preconditions"] = list(preconditions)
        if fences:
            body["fences"] = list(fences)
        return model.outcome(self._transport.write("POST", "/v1/transactions", body=body, transaction_id=named))

    def outcome(self, transaction_id: str) -> Outcome | None:
        """Return what a transaction did, None where nothing was committed under this id."""
        try:
            return model.outcome(self._transport.read("GET", f"/v1/transactions/{quote(transaction_id, safe='')}"))
        except NotFound:
            return None

    # Queries

    def query_page(
        self,
        collection: str,
        *,
        where: Any = None,
        order_by: Sequence[tuple[str, str]] = (),
        limit: int = 100,
        cursor: str | None = None,
        select: Sequence[str] | None = None,
        as_of: int | None = None,
    ) -> Page:
        """Return a page of the records that match; `order_by` is pairs of a field and "asc" or "desc".

        `as_of` asks about an earlier revision.
        """
        body: dict[str, Any] = {"collection": collection, "limit": limit}
        if where is not None:
            body["where"] = where
        if order_by:
            body["orderBy"] = [{"field": field, "direction": direction} for field, direction in order_by]
        if cursor is not None:
            body["cursor"] = cursor
        if select is not None:
            body["select"] = list(select)
        if as_of is not None:
            body["asOf"] = as_of
        return _page(self._transport.read("POST", "/v1/query", body=body))

    def query(
        self,
        collection: str,
        *,
        where: Any = None,
        order_by: Sequence[tuple[str, str]] = (),
        select: Sequence[str] | None = None,
        as_of: int | None = None,
        batch: int = 500,
    ) -> Iterator[Record]:
        """Yield every record that matches, read page by page; with `as_of`, those of an earlier revision."""
        cursor: str | None = None
        while True:
            page = self.query_page(
                collection, where=where, order_by=order_by, limit=batch, cursor=cursor, select=select, as_of=as_of
            )
            yield from page.records
            cursor = page.next_cursor
            if cursor is None:
                return

    # The feed

    def changes(
        self,
        after: str = START,
        *,
        limit: int = 100,
        wait_s: int = 0,
        collections: Sequence[str] | None = None,
    ) -> Changes:
        """Return the operations after a cursor, `START` or `NOW`, waiting up to `wait_s` (30) for some."""
        parameters: dict[str, Any] = {"after": after, "limit": limit, "wait": wait_s}
        if collections is not None:
            parameters["collections"] = ",".join(collections)
        body = self._transport.read("GET", "/v1/changes", parameters=parameters, extra_timeout_s=wait_s)
        return Changes(
            operations=tuple(model.operation(each) for each in body["operations"]),
            cursor=body["cursor"],
            head=body["head"],
            floor=body["floor"],
        )

    def follow(
        self,
        after: str = START,
        *,
        limit: int = 500,
        wait_s: int = 20,
        collections: Sequence[str] | None = None,
        on_gap: Callable[[FeedCompacted], str] | None = None,
    ) -> Iterator[Changes]:
        """Yield page after page of the feed for ever, each with operations in it; keep `cursor` when one is dealt with.

        Where the feed no longer reaches back to `after`, `on_gap` may bring things up to date (see `snapshot`) and
        return the cursor to go on from; without it FeedCompacted is raised.
        """
        while True:
            try:
                page = self.changes(after, limit=limit, wait_s=wait_s, collections=collections)
            except FeedCompacted as gap:
                if on_gap is None:
                    raise
                after = on_gap(gap)
                continue
            after = page.cursor
            if page.operations:
                yield page

    def snapshot(self, collections: Sequence[str] | None = None) -> tuple[str, Iterator[tuple[str, Record]]]:
        """Return a cursor, and every record (with its collection) as it is then or later.

        The feed after the cursor holds every change that the records may miss. Some records may already show such a
        change: an operation whose `version` is not above the record's is one already seen.
        """
        cursor = str(self._transport.read("GET", "/v1/revision")["cursor"])

        def records() -> Iterator[tuple[str, Record]]:
            for name in self.collections() if collections is None else collections:
                for each in self.records(name):
                    yield name, each

        return cursor, records()

    def runtime(self) -> dict[str, Any]:
        """Return what the server says of itself: instance, position, features, limits."""
        return dict(self._transport.read("GET", "/v1/runtime"))

    def _write(
        self, method: str, path: str, body: Any, transaction_id: str | None, *, version: int | None = None
    ) -> Any:
        named = transaction_id or _new_id()
        headers = {"Idempotency-Key": named}
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        return self._transport.write(method, path, body=body, headers=headers, transaction_id=named)


def _new_id() -> str:
    return uuid.uuid4().hex


def _page(body: Mapping[str, Any]) -> Page:
    return Page(records=tuple(model.record(each) for each in body["records"]), next_cursor=body["next_cursor"])
