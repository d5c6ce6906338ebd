"""A column that keeps a JSON value as its own compact text.

PostgreSQL's `jsonb` rewrites numbers and forgets member order; a workload's input must come back exactly as it was
given. Not for querying into: what is queried has a column of its own.
"""

from typing import TYPE_CHECKING, Any

import orjson
from django.db import models

from apps.http import strict_json

if TYPE_CHECKING:
    _AnyText = models.TextField[Any, Any]
else:
    _AnyText = models.TextField


class JSONText(_AnyText):
    """Any JSON value, kept exactly. None is SQL NULL where the column allows it, JSON null where it does not."""

    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        """Read the stored text."""
        return None if value is None else orjson.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        """Write compact text."""
        if value is None and self.null:
            return None
        return value.text if isinstance(value, Text) else strict_json.dumps(value).decode()

    def to_python(self, value: Any) -> Any:
        """A value is what it is; only forms and fixtures pass text, and none edits these columns."""
        return value


class Text:
    """JSON that is text already: measured and written once, outside the transaction that stores it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text
