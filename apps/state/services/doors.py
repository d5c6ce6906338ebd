"""Which collections a caller may touch; every door to records asks here first, and gets the same answer.

Collections whose names begin with `_` belong to FeltDB itself: readable like any other, written only through their
own routes. A key may be limited to a list of collections.
"""

from apps.http.errors import ApiError
from apps.state.calls import Call


def may_read(call: Call, collection: str) -> None:
    """Raise FORBIDDEN (reason COLLECTION_DENIED) where the caller's key does not open the collection."""
    if call.collections is not None and collection not in call.collections:
        raise _denied("The key does not open this collection.", collection)


def may_write(call: Call, collection: str) -> None:
    """Raise FORBIDDEN (reason COLLECTION_DENIED) for a collection that is not the caller's to write."""
    if collection.startswith("_"):
        raise _denied(
            "Collections whose names begin with '_' are FeltDB's own; they are written through their own routes.",
            collection,
        )
    may_read(call, collection)


def _denied(message: str, collection: str) -> ApiError:
    return ApiError("FORBIDDEN", message, reason="COLLECTION_DENIED", details={"collection": collection})
