"""Collections that belong to FeltDB itself: their names begin with `_`.

Readable like any other, written only through their own routes; every door for records asks here first.
"""

from apps.http.errors import ApiError


def refuse_system(collection: str) -> None:
    """Raise FORBIDDEN (reason COLLECTION_DENIED) for a write to a system collection."""
    if collection.startswith("_"):
        raise ApiError(
            "FORBIDDEN",
            "Collections whose names begin with '_' are FeltDB's own; they are written through their own routes.",
            reason="COLLECTION_DENIED",
            details={"collection": collection},
        )
