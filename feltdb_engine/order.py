"""The order of a query's results, and the positions its cursors keep. Not here: the order of values (`ordering.py`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from feltdb_engine import limits
from feltdb_engine.errors import InvalidCursor, InvalidQuery
from feltdb_engine.ordering import MISSING, rank
from feltdb_engine.where import field_of

OrderBy = Sequence[tuple[str, str]]


class Order:
    """An order over records: fields, then the id. Missing, null, false, true, numbers, strings, then the rest."""

    def __init__(self, order_by: OrderBy) -> None:
        if len(order_by) > limits.ORDER_BY_MAX_FIELDS:
            raise InvalidQuery(f"At most {limits.ORDER_BY_MAX_FIELDS} fields to order by.", pointer="/order_by")
        self.fields = []
        for index, (path, direction) in enumerate(order_by):
            if direction not in ("asc", "desc"):
                raise InvalidQuery("The directions are asc and desc.", pointer=f"/order_by/{index}")
            self.fields.append((field_of(path, f"/order_by/{index}"), direction == "desc"))

    def position(self, last: Mapping[str, Any], record_id: str) -> list[Any]:
        """What a cursor keeps: per field [value] or [] where it is missing, then the id."""
        found: list[Any] = []
        for read, _ in self.fields:
            value = read(last)
            found.append([] if value is MISSING else [value])
        return [*found, record_id]

    def key_of(self, kept: list[Any]) -> tuple[Any, ...]:
        """The sort key of a cursor's position."""
        return self._build(self.values_of(kept), kept[-1])

    def values_of(self, kept: list[Any]) -> list[Any]:
        """The field values of a cursor's position. Raises InvalidCursor."""
        if len(kept) != len(self.fields) + 1:
            raise InvalidCursor("This cursor does not belong to this query.")
        return [one[0] if one else MISSING for one in kept[:-1]]

    def key(self, value: Mapping[str, Any], record_id: str) -> tuple[Any, ...]:
        """The sort key of a record."""
        return self._build([read(value) for read, _ in self.fields], record_id)

    def _build(self, found: list[Any], record_id: str) -> tuple[Any, ...]:
        parts = [
            _Descending(rank(one)) if descending else rank(one)
            for one, (_, descending) in zip(found, self.fields, strict=True)
        ]
        return (*parts, record_id.encode())


class _Descending:
    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: "_Descending") -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.key == other.key)

    __hash__ = None  # type: ignore[assignment]
