"""Requests of this room, read from JSON bodies and query strings into frozen values.

Hand-written because these are the hot routes; the serializers in `api/documents.py` only document them, and a
test holds the two together. The reference's camelCase members and ours in snake_case are both understood.
Not here: questions (`asking.py`), and anything about stores or what a request does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.http import QueryDict

from apps.http.errors import ApiError
from apps.state import reading
from apps.state.limits import (
    FEED_COLLECTIONS,
    PAGE_DEFAULT,
    PAGE_MAX,
    RESERVED_IDS,
    STREAM_PAGE,
    TRANSACTION_ID_BYTES,
    WAIT_MAX_S,
)
from apps.state.reading import ABSENT, invalid
from feltdb_engine import Cursor, Mutation, Precondition
from feltdb_engine.limits import BASIS_MAX_CHARS, FENCES_MAX, TRANSACTION_MAX_MUTATIONS
from feltdb_engine.model import JSONObject, MutationKind


@dataclass(frozen=True, kw_only=True, slots=True)
class PageRequest:
    """A page of a list: at most `limit` items after the opaque `cursor`."""

    limit: int
    cursor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Swap:
    """A compare-and-set: `value` is stored if the record's version is `expected_version` (0 = absent)."""

    expected_version: int
    value: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Transaction:
    """Several changes and what must hold for them, under an id of the client's if it gave one.

    `fences` are tokens of read bases. `places` are the JSON pointers of the preconditions: one of the request may be
    several.
    """

    transaction_id: str | None
    mutations: tuple[Mutation, ...]
    preconditions: tuple[Precondition, ...]
    places: tuple[str, ...]
    fences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangesRequest:
    """A page of the feed after `after`, waiting up to `wait_s` seconds for one that holds something."""

    after: Cursor | str
    limit: int
    wait_s: int
    collections: tuple[str, ...] | None


def page(parameters: QueryDict) -> PageRequest:
    """Read `limit` and `cursor`."""
    reading.known_parameters(parameters, "limit", "cursor")
    limit = reading.query_whole(parameters, "limit", PAGE_DEFAULT, low=1, high=PAGE_MAX)
    return PageRequest(limit=limit, cursor=parameters.get("cursor"))


def new_record(body: Any) -> tuple[str | None, dict[str, Any]]:
    """Read a posted record: the id it names for itself, if any, and its value without that member."""
    value = whole_object(body)
    if "id" not in value:
        return None, value
    return reading.record_id(value["id"], pointer="/id"), {name: value[name] for name in value if name != "id"}


def named_object(body: Any, record_id: str) -> dict[str, Any]:
    """Read the object of PUT or PATCH: an `id` in it must be the one in the path, and is not stored."""
    value = whole_object(body)
    if "id" not in value:
        return value
    if value["id"] != record_id:
        raise invalid("The member 'id' differs from the id in the path.", pointer="/id")
    return {name: value[name] for name in value if name != "id"}


def whole_object(value: Any, pointer: str = "") -> dict[str, Any]:
    """Return `value`, which must be an object."""
    if type(value) is not dict:
        raise invalid("A record is a JSON object.", pointer=pointer)
    return value


_SWAP = frozenset({"expectedVersion", "expected_version", "value"})


def swap(body: Any) -> Swap:
    """Read the body of a compare-and-set."""
    members = reading.an_object(body, "", _SWAP)
    expected = reading.one_of(members, "expectedVersion", "expected_version", "")
    return Swap(
        expected_version=reading.whole(expected, "/expectedVersion", low=0),
        value=whole_object(members.get("value"), "/value"),
    )


_TRANSACTION = frozenset({"transactionId", "transaction_id", "operations", "preconditions", "fences"})


def transaction(body: Any, headers: Mapping[str, str]) -> Transaction:
    """Read the body of a transaction; its id may come as `Idempotency-Key` instead."""
    members = reading.an_object(body, "", _TRANSACTION)
    named = reading.one_of(members, "transactionId", "transaction_id", "")
    id_ = transaction_id(headers)
    if named is not ABSENT:
        if id_ is not None and named != id_:
            raise invalid("transactionId and Idempotency-Key name different ids.", field="Idempotency-Key")
        id_ = reading.transaction_id(named, pointer="/transactionId")
        _refuse_reserved(id_, pointer="/transactionId")
    operations = reading.an_array(members.get("operations"), "/operations", at_most=TRANSACTION_MAX_MUTATIONS)
    if not operations:
        raise invalid("A transaction needs at least one operation.", pointer="/operations")
    conditions = reading.an_array(members.get("preconditions", []), "/preconditions", at_most=TRANSACTION_MAX_MUTATIONS)
    fences = reading.an_array(members.get("fences", []), "/fences", at_most=FENCES_MAX)
    mutations = tuple(_mutation(item, f"/operations/{at}") for at, item in enumerate(operations))
    _refuse_twice(mutations)
    named = [each for at, item in enumerate(conditions) for each in _preconditions(item, f"/preconditions/{at}")]
    return Transaction(
        transaction_id=id_,
        mutations=mutations,
        preconditions=tuple(condition for _, condition in named),
        places=tuple(place for place, _ in named),
        fences=tuple(_fence(item, f"/fences/{at}") for at, item in enumerate(fences)),
    )


def _fence(item: Any, pointer: str) -> str:
    """Read a fence: a token, or the whole answer that gave it, as the reference's clients send it."""
    if type(item) is dict:
        return reading.text(item.get("token"), f"{pointer}/token", max_bytes=BASIS_MAX_CHARS)
    return reading.text(item, pointer, max_bytes=BASIS_MAX_CHARS)


_OPERATION = frozenset(
    {"collection", "id", "value", "merge", "delete", "requireAbsent", "require_absent"}
    | {"expectedVersion", "expected_version"}
)


def _mutation(item: Any, pointer: str) -> Mutation:
    members = reading.an_object(item, pointer, _OPERATION)
    collection = reading.collection_name(members.get("collection"), pointer=f"{pointer}/collection")
    record_id = reading.record_id(members.get("id"), pointer=f"{pointer}/id")
    must_be_absent = reading.flag(
        reading.one_of(members, "requireAbsent", "require_absent", pointer), f"{pointer}/requireAbsent"
    )
    version = reading.one_of(members, "expectedVersion", "expected_version", pointer)
    if_version = None
    if version is not ABSENT:
        if_version = reading.whole(version, f"{pointer}/expectedVersion", low=0)
        if must_be_absent:
            raise invalid("Give requireAbsent or expectedVersion, not both.", pointer=pointer)
    deletes = reading.flag(members.get("delete", ABSENT), f"{pointer}/delete")
    if deletes + ("value" in members) + ("merge" in members) > 1:
        raise invalid("An operation has one of value, merge and delete.", pointer=pointer)
    kind: MutationKind
    value: JSONObject | None = None
    if "value" in members:
        kind = "insert" if must_be_absent else "put"
        value = whole_object(members["value"], f"{pointer}/value")
    elif must_be_absent:
        raise invalid("requireAbsent goes with a value.", pointer=f"{pointer}/requireAbsent")
    elif "merge" in members:
        kind = "merge"
        value = whole_object(members["merge"], f"{pointer}/merge")
    elif deletes or "delete" not in members:
        kind = "delete"
    else:
        raise invalid("An operation needs a value, a merge or delete: true.", pointer=pointer)
    return Mutation(kind=kind, collection=collection, id=record_id, value=value, if_version=if_version)


def _refuse_twice(mutations: tuple[Mutation, ...]) -> None:
    seen = {(each.collection, each.id): at for at, each in enumerate(mutations)}
    if len(seen) == len(mutations):
        return
    for at, each in enumerate(mutations):
        if seen[each.collection, each.id] != at:
            again = seen[each.collection, each.id]
            raise invalid("A transaction changes a record once.", pointer=f"/operations/{again}")


_PRECONDITION = frozenset(
    {"collection", "id", "requireAbsent", "require_absent", "requirePresent", "require_present"}
    | {"expectedVersion", "expected_version", "pointer", "equals"}
)


def _preconditions(item: Any, at: str) -> list[tuple[str, Precondition]]:
    """Read what one precondition asks for, each with its place."""
    members = reading.an_object(item, at, _PRECONDITION)
    collection = reading.collection_name(members.get("collection"), pointer=f"{at}/collection")
    record_id = reading.record_id(members.get("id"), pointer=f"{at}/id")
    found: list[tuple[str, Precondition]] = []
    existence: tuple[tuple[str, str, Literal["absent", "present"]], ...] = (
        ("requireAbsent", "require_absent", "absent"),
        ("requirePresent", "require_present", "present"),
    )
    for name, alias, predicate in existence:
        if reading.flag(reading.one_of(members, name, alias, at), f"{at}/{name}"):
            found.append((f"{at}/{name}", Precondition(collection=collection, id=record_id, predicate=predicate)))
    version = reading.one_of(members, "expectedVersion", "expected_version", at)
    if version is not ABSENT:
        place = f"{at}/expectedVersion"
        number = reading.whole(version, place, low=0)
        asked = Precondition(collection=collection, id=record_id, predicate="version", version=number)
        found.append((place, asked))
    if ("pointer" in members) != ("equals" in members):
        raise invalid("'pointer' and 'equals' go together.", pointer=at)
    if "pointer" in members:
        asked = Precondition(
            collection=collection,
            id=record_id,
            predicate="equals",
            pointer=_json_pointer(members["pointer"], f"{at}/pointer"),
            value=members["equals"],
        )
        found.append((f"{at}/equals", asked))
    if not found:
        raise invalid("This precondition constrains nothing.", pointer=at)
    return found


_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


def _json_pointer(value: Any, at: str) -> str:
    if type(value) is not str or not _POINTER.fullmatch(value):
        raise invalid(
            "A JSON pointer (RFC 6901) is empty or begins with '/'; in it '~' is followed by 0 or 1.", pointer=at
        )
    return value


def changes(parameters: QueryDict) -> ChangesRequest:
    """Read `after` (a returned cursor, `start` or `now`), `limit`, `wait` and `collections`."""
    reading.known_parameters(parameters, "after", "limit", "wait", "collections")
    return ChangesRequest(
        after=_after(parameters.get("after", "start")),
        limit=reading.query_whole(parameters, "limit", PAGE_DEFAULT, low=1, high=PAGE_MAX),
        wait_s=reading.query_whole(parameters, "wait", 0, low=0, high=WAIT_MAX_S),
        collections=collections_named(parameters),
    )


def stream(parameters: QueryDict, headers: Mapping[str, str]) -> ChangesRequest:
    """Read `after` and `collections` of a stream. `Last-Event-ID` wins: it is where a broken stream goes on."""
    reading.known_parameters(parameters, "after", "cursor", "collections")
    resumed = headers.get("Last-Event-ID")
    asked = reading.one_of(parameters.dict(), "after", "cursor", "")
    return ChangesRequest(
        after=_after("start" if asked is ABSENT else asked) if resumed is None else _after(resumed, "Last-Event-ID"),
        limit=STREAM_PAGE,
        wait_s=0,
        collections=collections_named(parameters),
    )


def _after(given: str, field: str = "after") -> Cursor | str:
    if given in ("start", "now"):
        return given
    try:
        return Cursor.parse(given)
    except ValueError as error:
        raise ApiError(
            "INVALID_CURSOR",
            f"'{field}' takes a cursor this feed returned, 'start' or 'now'.",
            details={"field": field},
        ) from error


def collections_named(parameters: QueryDict) -> tuple[str, ...] | None:
    """Read `collections`: names separated by commas, None where there is none."""
    if "collections" not in parameters:
        return None
    names = {name for given in parameters.getlist("collections") for name in given.split(",")}
    if len(names) > FEED_COLLECTIONS:
        raise invalid(f"At most {FEED_COLLECTIONS} collections can be named.", field="collections")
    return tuple(sorted(reading.collection_name(name, field="collections") for name in names))


def transaction_id(headers: Mapping[str, str]) -> str | None:
    """Read `Idempotency-Key`: 1 to 128 printable ASCII characters, the transaction id of a single-record write."""
    given = headers.get("Idempotency-Key")
    if given is None:
        return None
    if not (1 <= len(given) <= TRANSACTION_ID_BYTES and given.isascii() and given.isprintable()):
        raise invalid(
            f"Idempotency-Key is 1 to {TRANSACTION_ID_BYTES} printable ASCII characters.", field="Idempotency-Key"
        )
    _refuse_reserved(given, field="Idempotency-Key")
    return given


def _refuse_reserved(named: str, **place: str) -> None:
    """FeltDB itself commits under these ids: steps of work and batches of imports. One taken before would stop them."""
    for prefix in RESERVED_IDS:
        if named.startswith(prefix):
            raise invalid(f"Ids that begin with '{prefix}' are FeltDB's own.", **place)
