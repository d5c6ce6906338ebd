"""Small readers for members of request bodies and query strings; each refusal names its place.

Not here: what a request of this room looks like (`inputs.py`).
"""

from collections.abc import Mapping
from typing import Any

from django.http import QueryDict

from apps.http.errors import ApiError
from feltdb_engine.errors import InvalidKey
from feltdb_engine.values import encode_collection, encode_id, encode_transaction_id

ABSENT: Any = object()
MAX_INTEGER = 2**63 - 1


def invalid(message: str, *, pointer: str | None = None, field: str | None = None) -> ApiError:
    """Return VALIDATION_ERROR at a JSON pointer of the body, or at a field of path, query or header."""
    place = {"pointer": pointer} if pointer is not None else {"field": field}
    return ApiError("VALIDATION_ERROR", message, details=place)


def an_object(value: Any, pointer: str, allowed: frozenset[str]) -> dict[str, Any]:
    """Return `value`, which must be an object with no member outside `allowed`."""
    if type(value) is not dict:
        raise invalid("An object is needed here.", pointer=pointer)
    if not allowed.issuperset(value):
        unknown = sorted(value.keys() - allowed)[0]
        raise invalid(f"There is no member '{unknown}' here.", pointer=f"{pointer}/{_escaped(unknown)}")
    return value


def an_array(value: Any, pointer: str, *, at_most: int) -> list[Any]:
    """Return `value`, which must be an array of at most so many items."""
    if type(value) is not list:
        raise invalid("An array is needed here.", pointer=pointer)
    if len(value) > at_most:
        raise invalid(f"At most {at_most} items are allowed here.", pointer=pointer)
    return value


def one_of(members: Mapping[str, Any], name: str, alias: str, pointer: str) -> Any:
    """Return the member `name` or its other spelling, ABSENT where neither is there; both are refused."""
    if alias in members:
        if name in members:
            raise invalid(f"Give '{name}' or '{alias}', not both.", pointer=f"{pointer}/{alias}")
        return members[alias]
    return members.get(name, ABSENT)


def text(value: Any, pointer: str, *, max_bytes: int) -> str:
    """Return `value`, which must be a string of 1 to `max_bytes` bytes of UTF-8."""
    if type(value) is not str or not 1 <= len(value.encode()) <= max_bytes:
        raise invalid(f"A string of 1 to {max_bytes} bytes is needed here.", pointer=pointer)
    return value


def whole(value: Any, pointer: str, *, low: int, high: int = MAX_INTEGER) -> int:
    """Return `value`, which must be an integer from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise invalid(f"An integer from {low} to {high} is needed here.", pointer=pointer)
    return value


def flag(value: Any, pointer: str) -> bool:
    """Return `value`, which must be true, false or ABSENT (false)."""
    if value is ABSENT:
        return False
    if type(value) is not bool:
        raise invalid("true or false is needed here.", pointer=pointer)
    return value


def collection_name(value: Any, **place: str) -> str:
    """Return `value`, which must be a collection name. `place` is `pointer=` or `field=`."""
    return _named(encode_collection, value, place)


def record_id(value: Any, **place: str) -> str:
    """Return `value`, which must be a record id. `place` is `pointer=` or `field=`."""
    return _named(encode_id, value, place)


def transaction_id(value: Any, **place: str) -> str:
    """Return `value`, which must be a transaction id. `place` is `pointer=` or `field=`."""
    return _named(encode_transaction_id, value, place)


def _named(check: Any, value: Any, place: dict[str, str]) -> str:
    if type(value) is not str:
        raise invalid("A string is needed here.", **place)
    try:
        check(value)
    except InvalidKey as error:
        raise invalid(error.message, **place) from error
    return value


def query_whole(parameters: Mapping[str, str], name: str, default: int, *, low: int, high: int) -> int:
    """Return the whole number in query parameter `name`."""
    given = parameters.get(name)
    if given is None:
        return default
    if not (given.isascii() and given.isdigit() and len(given) <= 20 and low <= int(given) <= high):
        raise invalid(f"'{name}' must be a whole number from {low} to {high}.", field=name)
    return int(given)


def known_parameters(parameters: QueryDict, *names: str) -> None:
    """Refuse a query parameter the route does not have, or one given twice: it would be ignored in silence."""
    for name, given in parameters.lists():
        if name not in names:
            raise invalid(f"There is no query parameter '{name}' here.", field=name)
        if len(given) > 1 and name != "collections":
            raise invalid(f"The query parameter '{name}' is given twice.", field=name)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
