"""What a store of versioned records must do, one call after the other; and how a history falls apart by records.

Calls that share no record, over any chain of others, cannot disturb each other, so each group is searched alone
(linearizability is a local property).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from tests.engine.checkers.linear import Call, stuck_at


class Change(NamedTuple):
    """A mutation: `kind` as the engine says; `value` is any text that names what was written."""

    key: str
    kind: Literal["put", "insert", "update", "delete", "remove"]  # remove: a delete that answers 0 for nothing
    value: str | None = None
    if_version: int | None = None


class Write(NamedTuple):
    """A transaction. `requires` are preconditions: (key, version; 0 = absent). Answer: Written or Refused."""

    changes: tuple[Change, ...]
    requires: tuple[tuple[str, int], ...] = ()
    id: str | None = None


class Read(NamedTuple):
    """Records of one moment. Answer: per key (version, value), None where absent."""

    keys: tuple[str, ...]


class Written(NamedTuple):
    """The transaction is committed; `versions` per change; `duplicate` where its id was known."""

    versions: tuple[int, ...]
    duplicate: bool = False


class Refused(NamedTuple):
    """A condition did not hold, and nothing was done."""


class Entry(NamedTuple):
    """A record, or what is left of it: its version goes on."""

    version: int
    value: str | None  # None: absent


class State(NamedTuple):
    """Everything a group of records and transaction ids says. Both are sorted by key and hashable."""

    records: tuple[tuple[str, Entry], ...] = ()
    ids: frozenset[tuple[str, tuple[int, ...]]] = frozenset()


EMPTY = State()
_ABSENT = Entry(0, None)
_NEVER = 1 << 32


def step(state: State, request: Write | Read) -> tuple[object, State]:
    """The answer, and the state after it."""
    records = dict(state.records)
    if isinstance(request, Read):
        return tuple(_seen(records.get(key, _ABSENT)) for key in request.keys), state
    if request.id is not None:
        for known, versions in state.ids:
            if known == request.id:
                return Written(versions, duplicate=True), state
    for key, version in request.requires:
        if _present_version(records.get(key, _ABSENT)) != version:
            return Refused(), state
    versions: list[int] = []
    for change in request.changes:
        entry = records.get(change.key, _ABSENT)
        present = entry.value is not None
        wrong_version = change.if_version is not None and change.if_version != _present_version(entry)
        if wrong_version or (change.kind == "insert" and present) or (change.kind == "update" and not present):
            return Refused(), state
        removes = change.kind in ("delete", "remove")
        if not removes or present:
            entry = Entry(entry.version + 1, None if removes else change.value)
            records[change.key] = entry
            versions.append(entry.version)
        else:
            versions.append(entry.version if change.kind == "delete" else 0)
    ids = state.ids if request.id is None else state.ids | {(request.id, tuple(versions))}
    return Written(tuple(versions)), State(tuple(sorted(records.items())), ids)


def _present_version(entry: Entry) -> int:
    return 0 if entry.value is None else entry.version


def _seen(entry: Entry) -> Entry | None:
    return None if entry.value is None else entry


def keys_of(request: Write | Read) -> tuple[str, ...]:
    """The records a request reads or writes."""
    if isinstance(request, Read):
        return request.keys
    return (*(change.key for change in request.changes), *(key for key, _ in request.requires))


def groups(calls: Iterable[Call]) -> list[list[Call]]:
    """The calls of each group of records that are connected by calls."""
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        while leader.setdefault(key, key) != key:
            key = leader[key]
        return key

    calls = list(calls)
    for call in calls:
        first, *rest = keys_of(call.request)
        for key in rest:
            leader[find(key)] = find(first)
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(find(keys_of(call.request)[0]), []).append(call)
    return list(found.values())


def in_ordinals(calls: Iterable[Call], versions: Mapping[str, Mapping[int, str | None]]) -> list[Call]:
    """The same history with each version as its place among those its record ever had, from 1.

    `versions` names, per record and ascending, the transaction that made each. For stores whose compaction forgets
    deleted records: a version may then jump, and deleting nothing answers with any version, of which `step` knows
    nothing. What was never a version becomes a number that no order explains.
    """
    places = {key: {version: place for place, version in enumerate(made, 1)} for key, made in versions.items()}

    def place(key: str, version: int) -> int:
        return places.get(key, {}).get(version, _NEVER + version) if version else 0

    found = []
    for call in calls:
        request, answer = call.request, call.answer
        if isinstance(request, Read):
            if answer is not None:
                pairs = zip(request.keys, answer, strict=True)
                answer = tuple(one and one._replace(version=place(key, one.version)) for key, one in pairs)
        else:
            if isinstance(answer, Written):
                told = zip(request.changes, answer.versions, strict=True)
                did = [
                    one.kind != "delete" or versions.get(one.key, {}).get(version) == request.id
                    for one, version in told
                ]
                told = zip(request.changes, answer.versions, did, strict=True)
                after = tuple(place(one.key, version) if done else 0 for one, version, done in told)
                answer = answer._replace(versions=after)
            changes = tuple(
                one._replace(
                    kind="remove" if one.kind == "delete" else one.kind,
                    if_version=one.if_version and place(one.key, one.if_version),
                )
                for one in request.changes
            )
            requires = tuple((key, place(key, version)) for key, version in request.requires)
            request = request._replace(changes=changes, requires=requires)
        found.append(call._replace(request=request, answer=answer))
    return found


def not_linearizable(calls: Sequence[Call]) -> list[Call] | None:
    """None where the history of a store that began empty is linearizable, else the calls a search ended at."""
    for group in groups(_only_repeated_ids(calls)):
        stuck = stuck_at(step, EMPTY, group)
        if stuck is not None:
            return stuck
    return None


def _only_repeated_ids(calls: Sequence[Call]) -> list[Call]:
    """The same history without the ids that were used once: nobody asked whether they were remembered."""
    used = Counter(call.request.id for call in calls if isinstance(call.request, Write))
    return [
        call._replace(request=call.request._replace(id=None))
        if isinstance(call.request, Write) and used[call.request.id] == 1
        else call
        for call in calls
    ]
