"""Questions beyond records and queries: search, counts, history, read bases, indexes, the contract.

Part of `FeltDB`. Not here: what is streamed (`streaming.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from feltdb_client import model
from feltdb_client.errors import NotFound
from feltdb_client.model import Basis, Contract, ContractCheck, JSONObject, Operation, Record
from feltdb_client.transport import Transport

CONTRACT_TIMEOUT_S = 630.0
"""The server looks at every record for up to ten minutes."""


def path_of(collection: str, *segments: str) -> str:
    """Return the path of a collection, or of what lies below it."""
    return "/".join(["/v1/collections", *(quote(each, safe="") for each in (collection, *segments))])


class Asking:
    """Part of `FeltDB`."""

    _transport: Transport

    def search(self, collection: str, text: str, *, batch: int = 500) -> Iterator[Record]:
        """Yield the records with this text in any string of their value, whatever its case, in key order."""
        cursor: str | None = None
        while True:
            body = {"query": text, "limit": batch, **({"cursor": cursor} if cursor is not None else {})}
            page = self._transport.read("POST", path_of(collection) + "/search", body=body)
            yield from map(model.record, page["records"])
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def count(self, collection: str, where: Any = None, *, as_of: int | None = None) -> int:
        """Return how many records match, now or at an earlier revision."""
        body: dict[str, Any] = {"collection": collection, "count": True, "limit": 0}
        if where is not None:
            body["where"] = where
        if as_of is not None:
            body["asOf"] = as_of
        return int(self._transport.read("POST", "/v1/query", body=body)["count"])

    def history(self, collection: str, record_id: str, *, batch: int = 100) -> Iterator[Operation]:
        """Yield the record's operations, newest first, as far back as they are kept. Raises NotFound."""
        cursor: str | None = None
        while True:
            parameters = {"limit": batch, **({"cursor": cursor} if cursor is not None else {})}
            page = self._transport.read("GET", path_of(collection, record_id) + "/history", parameters=parameters)
            yield from map(model.operation, page["operations"])
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def provenance(self, collection: str, record_id: str) -> dict[str, Any] | None:
        """Return the record's last operation without its value, of a deleted one too; None where there was none."""
        try:
            return dict(self._transport.read("GET", path_of(collection, record_id) + "/provenance"))
        except NotFound:
            return None

    def read_basis(
        self,
        records: Sequence[tuple[str, str]] = (),
        predicates: Sequence[tuple[str, Any]] = (),
    ) -> Basis:
        """Read records (collection, id) and conditions (collection, where): the token fences a commit with them."""
        body = {
            "records": [{"collection": collection, "id": record_id} for collection, record_id in records],
            "predicates": [{"collection": collection, "where": where} for collection, where in predicates],
        }
        found = self._transport.read("POST", "/v1/transactions/read-basis", body=body)
        return Basis(
            token=found["token"],
            revision=found["revision"],
            records=tuple(None if each is None else model.record(each) for each in found["records"]),
        )

    def declare_index(self, collection: str, name: str, fields: Sequence[str]) -> None:
        """Declare an index and see it built to the end, however long that takes."""
        path = path_of(collection, "indexes", name)
        while not self._transport.read("PUT", path, body={"fields": list(fields)})["complete"]:
            pass

    def drop_index(self, collection: str, name: str) -> bool:
        """Drop an index; False where there is none of that name."""
        try:
            self._transport.read("DELETE", path_of(collection, "indexes", name))
        except NotFound:
            return False
        return True

    def contract(self) -> Contract:
        """Return the namespace's contract."""
        return _contract(self._transport.read("GET", "/v1/schema"))

    def check_contract(self, contract: JSONObject) -> ContractCheck:
        """Say what stored records would break the contract; nothing is changed."""
        found = self._transport.read("POST", "/v1/schema/validate", body=contract, extra_timeout_s=CONTRACT_TIMEOUT_S)
        return ContractCheck(
            valid=found["valid"],
            issues=tuple(found["issues"]),
            complete=found["complete"],
            checked=found["checked"],
            breaches=tuple(found["breaches"]),
        )

    def activate_contract(self, contract: JSONObject, *, revision: int | None = None) -> Contract:
        """Put a contract in force; with `revision`, only in place of that one. The same again changes nothing.

        Raises ApiError CONTRACT_BROKEN with `body["report"]`, CONTRACT_INVALID, CONTRACT_CONFLICT, IF_MATCH_FAILED.
        """
        headers = {}
        if revision is not None:
            headers = {"If-None-Match": "*"} if revision == 0 else {"If-Match": f'"{revision}"'}
        return _contract(
            self._transport.read(
                "PUT", "/v1/schema", body=contract, headers=headers, extra_timeout_s=CONTRACT_TIMEOUT_S
            )
        )


def _contract(body: Mapping[str, Any]) -> Contract:
    return Contract(
        revision=body["revision"], sequence=body["sequence"], contract=body["contract"], pending=body["pending"]
    )
