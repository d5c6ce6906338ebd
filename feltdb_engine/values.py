"""What a caller may say: names, values, transaction ids and actors, checked and encoded once.

A value is what JSON can say exactly. Anything else is refused with a JSON pointer, never rounded.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from feltdb_engine import limits
from feltdb_engine.errors import InvalidKey, InvalidValue, TransactionTooLarge
from feltdb_engine.model import Actor, Mutation, Precondition

_COLLECTION = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{limits.COLLECTION_MAX_CHARS - 1}}}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_OPTIONS = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_SORTED = _OPTIONS | orjson.OPT_SORT_KEYS
_collections: dict[str, bytes] = {}  # names found good before
_INTEGER_MIN = -(1 << 63)
_INTEGER_MAX = (1 << 64) - 1
NOBODY = Actor()
_PLAIN = frozenset((str, int, bool, type(None)))
_DOTS = frozenset((".", ".."))

loads = orjson.loads


def encode_collection(name: object) -> bytes:
    """The bytes of a collection name. Raises InvalidKey."""
    known = _collections.get(name) if type(name) is str else None
    if known is not None:
        return known
    if type(name) is not str or _COLLECTION.fullmatch(name) is None:
        raise InvalidKey(
            "A collection is 1 to 128 of A-Z a-z 0-9 _ . - and begins with a letter, a digit or _.",
            collection=name if isinstance(name, str) else None,
        )
    if len(_collections) >= limits.NAMES_REMEMBERED:
        _collections.clear()
    data = _collections[name] = name.encode()
    return data


def encode_id(record_id: object) -> bytes:
    """The bytes of a record id. Raises InvalidKey."""
    if type(record_id) is str and record_id not in _DOTS:
        plain = record_id.isascii() and record_id.isprintable()
        if plain or _CONTROL.search(record_id) is None:
            try:
                data = record_id.encode()
            except UnicodeEncodeError:
                data = b""
            if 0 < len(data) <= limits.ID_MAX_BYTES:
                return data
    raise InvalidKey("An id is 1 to 256 bytes of UTF-8 without control characters, and neither . nor ..", id=None)


def encode_key(key: object) -> tuple[bytes, bytes]:
    """Collection and id of a whole key, split at its first colon. Raises InvalidKey."""
    if type(key) is not str or ":" not in key:
        raise InvalidKey("A key is collection:id.")
    collection, _, record_id = key.partition(":")
    return encode_collection(collection), encode_id(record_id)


def encode_value(value: object, pointer: str = "") -> bytes:
    """The compact JSON of an object. Raises InvalidValue with the place of the first fault, `pointer` before it."""
    if type(value) is not dict:
        if not isinstance(value, Mapping):
            raise InvalidValue("A record's value is a JSON object.", pointer=pointer)
        value = dict(value)
    data = encode_json(value, pointer)
    if len(data) > limits.VALUE_MAX_BYTES:
        raise InvalidValue(f"A value takes at most {limits.VALUE_MAX_BYTES} bytes.", pointer=pointer)
    return data


def encode_json(value: object, pointer: str = "") -> bytes:
    """The compact JSON of any value. Raises InvalidValue."""
    if _is_plain(value, 1):
        try:
            data = orjson.dumps(value, option=_OPTIONS)
        except (TypeError, ValueError, RecursionError):
            data = b""
        # One byte is found much faster than six, and most values have no backslash at all.
        if data and (b"\\" not in data or b"\\u0000" not in data):
            return data
    explain(value, pointer)
    # What looked like a NUL was a backslash and digits in a string, which is fine.
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"This cannot be said in JSON: {error}", pointer=pointer) from error


def _is_plain(value: Any, depth: int) -> bool:
    """Whether only exact JSON types occur; what orjson itself refuses is left to it."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is dict or kind is list or kind is tuple:
        if depth > limits.VALUE_MAX_DEPTH:
            return False
        for member in value.values() if kind is dict else value:
            if type(member) not in _PLAIN and not _is_plain(member, depth + 1):
                return False
        return True
    return kind is float and math.isfinite(value)


def explain(value: object, pointer: str, depth: int = 1) -> None:
    """Raise InvalidValue for the first fault in `value`, with its pointer; return where there is none."""
    if value is None or type(value) is bool:
        return
    if type(value) is str:
        _explain_text(value, pointer)
    elif type(value) is int:
        if not _INTEGER_MIN <= value <= _INTEGER_MAX:
            raise InvalidValue("Integers lie within 64 bits.", pointer=pointer)
    elif type(value) is float:
        if not math.isfinite(value):
            raise InvalidValue("Numbers are finite.", pointer=pointer)
    elif isinstance(value, dict | list | tuple):
        if depth > limits.VALUE_MAX_DEPTH:
            raise InvalidValue(f"Values nest at most {limits.VALUE_MAX_DEPTH} deep.", pointer=pointer)
        _explain_members(value, pointer, depth)
    else:
        raise InvalidValue(f"JSON has no {type(value).__name__}.", pointer=pointer)


def _explain_text(text: str, pointer: str) -> None:
    if "\0" in text:
        raise InvalidValue("Strings contain no NUL.", pointer=pointer)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValue("Strings are valid Unicode, without lone surrogates.", pointer=pointer) from None


def _explain_members(value: dict[Any, Any] | list[Any] | tuple[Any, ...], pointer: str, depth: int) -> None:
    if not isinstance(value, dict):
        for index, member in enumerate(value):
            explain(member, f"{pointer}/{index}", depth + 1)
        return
    for name, member in value.items():
        if type(name) is not str:
            raise InvalidValue("Member names are strings.", pointer=pointer)
        _explain_text(name, pointer)
        explain(member, pointer + "/" + name.replace("~", "~0").replace("/", "~1"), depth + 1)


def encode_actor(actor: Actor) -> bytes:
    """The JSON of the members that are set, empty where none is. Raises InvalidValue, TransactionTooLarge."""
    members: dict[str, str] = {}
    for name in Actor.__slots__:
        member = getattr(actor, name)
        if member is not None:
            if type(member) is not str:
                raise InvalidValue("An actor's members are strings.", pointer=f"/actor/{name}")
            members[name] = member
    if not members:
        return b""
    data = encode_json(members, "/actor")
    if len(data) > limits.ACTOR_MAX_BYTES:
        raise TransactionTooLarge(f"An actor takes at most {limits.ACTOR_MAX_BYTES} bytes.")
    return data


def decode_actor(data: bytes) -> Actor:
    """The actor whose encoding this is."""
    return Actor(**loads(data)) if data else NOBODY


def encode_transaction_id(transaction_id: object) -> bytes:
    """The bytes of a transaction id. Raises InvalidKey."""
    if type(transaction_id) is str and _CONTROL.search(transaction_id) is None:
        try:
            data = transaction_id.encode()
        except UnicodeEncodeError:
            data = b""
        if 0 < len(data) <= limits.TRANSACTION_ID_MAX_BYTES:
            return data
    raise InvalidKey("A transaction id is 1 to 128 bytes of UTF-8 without control characters.")


def request_hash(mutations: Sequence[Mutation], preconditions: Sequence[Precondition], fences: Sequence[str]) -> bytes:
    """SHA-256 of the canonical request: the same content in another member order is the same request."""
    canonical: list[Any] = [
        [[m.kind, m.collection, m.id, m.value, m.if_version] for m in mutations],
        [[p.collection, p.id, p.predicate, p.version, p.pointer, p.value] for p in preconditions],
    ]
    if fences:
        canonical.append(list(fences))
    return hashlib.sha256(orjson.dumps(canonical, option=_SORTED)).digest()


def same_json(left: object, right: object) -> bool:
    """Whether two JSON values are the same: never across types, so 1, 1.0 and true are three values."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(same_json(member, right[name]) for name, member in left.items())
        )
    if isinstance(left, list | tuple):
        return (
            isinstance(right, list | tuple)
            and len(left) == len(right)
            and all(same_json(a, b) for a, b in zip(left, right, strict=True))
        )
    return type(left) is type(right) and left == right
