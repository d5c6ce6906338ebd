"""What must hold of a change: read from JSON, tested against the record before and after, explained in one word. Pure.

    predicate = clause | {"all": [predicate, ...]} | {"any": [predicate, ...]} | {"not": predicate}
              | {"changed": "a.b"} | {"was": predicate of clauses, all, any and not}
    clause    = {"field": "a.b", "equals": value} | {"field": "a.b", "op": op, "value": value}
    op        = eq ne lt lte gt gte in contains starts_with exists

A clause asks the record as it is after the change; of a delete, the record it removed. `was` asks the record before the
change and never holds where there was none; `changed` holds where the field is not what it was: there is no field
before an insert and none after a delete.

A field is a path split at dots through objects only; the empty path is the whole record. Equality is JSON's without
coercion: 1 is not 1.0, true is not 1, missing is not null. Order is among numbers (by value) or among texts (by code
point); between other types nothing is before or after anything.

Not here: which changes reach a predicate (`contract.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from apps.triggers.limits import MAX_FIELD_CHARS, MAX_IN_VALUES, MAX_PREDICATE_CLAUSES, MAX_PREDICATE_DEPTH


class Absent(Enum):
    """Values that mean: there is none (not null), and: what it was is not known."""

    ABSENT = "absent"
    UNKNOWN = "unknown"


ABSENT: Final = Absent.ABSENT
UNKNOWN: Final = Absent.UNKNOWN


class Verdict(Enum):
    """What a predicate says of a value; the names are the contract's reasons."""

    HOLDS = "matched"
    FIELD_ABSENT = "predicate_field_absent"
    VALUE_MISMATCH = "predicate_value_mismatch"
    PREVIOUS_ABSENT = "change_previous_absent"
    """It depends on the record before the change, which is not known."""


class PredicateInvalid(ValueError):
    """A predicate that cannot be read; `pointer` (RFC 6901) names the place."""

    def __init__(self, message: str, pointer: str) -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer


Test = Callable[[Any, Any, Any], Verdict]
"""Tests (record, before, after): what clauses are about, and the record on either side of the change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicate:
    """A predicate ready to test. `document` is its JSON; `is_equality` says it is the single `field` `equals` form,
    `reads_previous` that it asks for the record before the change.
    """

    document: Mapping[str, Any]
    is_equality: bool
    reads_previous: bool
    run: Test

    def test(self, record: Any, before: Any = ABSENT, after: Any = ABSENT) -> Verdict:
        """Say whether it holds of `record`, or why not; `before` and `after` count where `reads_previous`."""
        return self.run(record, before, after)


def parse(document: Any) -> Predicate:
    """Read a predicate. Raises `PredicateInvalid` for anything that is not one or is beyond the limits."""
    reader = _Reader()
    run = reader.node(document, pointer="", depth=1)
    return Predicate(document=document, is_equality="equals" in document, reads_previous=reader.reads_previous, run=run)


def resolve(value: Any, path: tuple[str, ...]) -> Any:
    """Follow a path through objects. Returns `ABSENT` where a step leads nowhere."""
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return ABSENT
        value = value[part]
    return value


def split_path(field: str) -> tuple[str, ...]:
    """Split at dots; the empty path has no steps."""
    return tuple(field.split(".")) if field else ()


def same_json(left: Any, right: Any) -> bool:
    """Compare as JSON values: types must agree, member order does not count, 0.0 equals -0.0."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(name in right and same_json(member, right[name]) for name, member in left.items())
        )
    if isinstance(left, list | tuple):
        return (
            isinstance(right, list | tuple)
            and len(left) == len(right)
            and all(same_json(a, b) for a, b in zip(left, right, strict=True))
        )
    return type(left) is type(right) and bool(left == right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _comparable(left: Any, right: Any) -> bool:
    return (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    return isinstance(value, list | tuple) and any(same_json(member, wanted) for member in value)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": same_json,
    "ne": lambda value, wanted: not same_json(value, wanted),
    "lt": lambda value, wanted: _comparable(value, wanted) and value < wanted,
    "lte": lambda value, wanted: _comparable(value, wanted) and value <= wanted,
    "gt": lambda value, wanted: _comparable(value, wanted) and value > wanted,
    "gte": lambda value, wanted: _comparable(value, wanted) and value >= wanted,
    "in": lambda value, wanted: any(same_json(value, member) for member in wanted),
    "contains": _contains,
    "starts_with": lambda value, wanted: isinstance(value, str) and value.startswith(wanted),
}
OPERATORS = (*_OPERATORS, "exists")


class _Reader:
    """One reading of a predicate: counts its clauses, notes whether it asks for the record before."""

    def __init__(self) -> None:
        self.clauses = 0
        self.reads_previous = False

    def node(self, document: Any, *, pointer: str, depth: int, within_was: bool = False) -> Test:
        if not isinstance(document, Mapping):
            raise PredicateInvalid("a predicate is an object", pointer)
        if depth > MAX_PREDICATE_DEPTH:
            raise PredicateInvalid(f"a predicate is at most {MAX_PREDICATE_DEPTH} levels deep", pointer)
        names = set(document)
        if names in ({"all"}, {"any"}):
            (name,) = names
            return self.branch(name, document[name], pointer=f"{pointer}/{name}", depth=depth, within_was=within_was)
        if names == {"not"}:
            inner = self.node(document["not"], pointer=f"{pointer}/not", depth=depth + 1, within_was=within_was)
            return _negation(inner)
        if names in ({"field", "equals"}, {"field", "op", "value"}):
            return self.clause(document, pointer=pointer)
        if names in ({"was"}, {"changed"}):
            (name,) = names
            if within_was:
                raise PredicateInvalid(f'"{name}" cannot stand within "was"', f"{pointer}/{name}")
            self.reads_previous = True
            if name == "changed":
                return _difference(self.path(document["changed"], f"{pointer}/changed"))
            return _before(self.node(document["was"], pointer=f"{pointer}/was", depth=depth + 1, within_was=True))
        raise PredicateInvalid(
            'a predicate has exactly "field" and "equals", or "field", "op" and "value", '
            'or one of "all", "any", "not", "changed", "was"',
            pointer,
        )

    def branch(self, name: str, members: Any, *, pointer: str, depth: int, within_was: bool) -> Test:
        if not isinstance(members, list | tuple) or not members:
            raise PredicateInvalid(f'"{name}" is a list of at least one predicate', pointer)
        tests = tuple(
            self.node(member, pointer=f"{pointer}/{index}", depth=depth + 1, within_was=within_was)
            for index, member in enumerate(members)
        )
        return _conjunction(tests) if name == "all" else _disjunction(tests)

    def path(self, field: Any, pointer: str) -> tuple[str, ...]:
        """Read the field of a clause, which it counts."""
        self.clauses += 1
        if self.clauses > MAX_PREDICATE_CLAUSES:
            raise PredicateInvalid(f"a predicate has at most {MAX_PREDICATE_CLAUSES} clauses", pointer)
        if not isinstance(field, str) or len(field) > MAX_FIELD_CHARS:
            raise PredicateInvalid(f"a field is a text of at most {MAX_FIELD_CHARS} characters", pointer)
        return split_path(field)

    def clause(self, document: Mapping[str, Any], *, pointer: str) -> Test:
        path = self.path(document["field"], f"{pointer}/field")
        if "equals" in document:
            return _comparison(path, same_json, document["equals"])
        operator, wanted = document["op"], document["value"]
        if not isinstance(operator, str) or operator not in OPERATORS:
            raise PredicateInvalid(f'"op" is one of {", ".join(OPERATORS)}', f"{pointer}/op")
        _check_operand(operator, wanted, f"{pointer}/value")
        if operator == "exists":
            return _existence(path, wanted)
        return _comparison(path, _OPERATORS[operator], wanted)


def _check_operand(operator: str, wanted: Any, pointer: str) -> None:
    if operator == "exists" and not isinstance(wanted, bool):
        raise PredicateInvalid('"exists" is compared with true or false', pointer)
    if operator == "starts_with" and not isinstance(wanted, str):
        raise PredicateInvalid('"starts_with" is compared with a text', pointer)
    if operator == "in" and (not isinstance(wanted, list | tuple) or len(wanted) > MAX_IN_VALUES):
        raise PredicateInvalid(f'"in" is compared with a list of at most {MAX_IN_VALUES} values', pointer)
    if operator in ("lt", "lte", "gt", "gte") and not (_is_number(wanted) or isinstance(wanted, str)):
        raise PredicateInvalid(f'"{operator}" is compared with a number or a text', pointer)


def _comparison(path: tuple[str, ...], holds: Callable[[Any, Any], bool], wanted: Any) -> Test:
    def test(record: Any, _before: Any, _after: Any) -> Verdict:
        for part in path:
            if not isinstance(record, dict) or part not in record:
                return Verdict.FIELD_ABSENT
            record = record[part]
        return Verdict.HOLDS if holds(record, wanted) else Verdict.VALUE_MISMATCH

    return test


def _existence(path: tuple[str, ...], wanted: bool) -> Test:
    def test(record: Any, _before: Any, _after: Any) -> Verdict:
        found = resolve(record, path) is not ABSENT
        if found is wanted:
            return Verdict.HOLDS
        return Verdict.VALUE_MISMATCH if found else Verdict.FIELD_ABSENT

    return test


def _difference(path: tuple[str, ...]) -> Test:
    def test(_record: Any, before: Any, after: Any) -> Verdict:
        if before is UNKNOWN:
            return Verdict.PREVIOUS_ABSENT
        same = same_json(resolve(before, path), resolve(after, path))
        return Verdict.VALUE_MISMATCH if same else Verdict.HOLDS

    return test


def _before(inner: Test) -> Test:
    def test(_record: Any, before: Any, after: Any) -> Verdict:
        if before is UNKNOWN:
            return Verdict.PREVIOUS_ABSENT
        return Verdict.FIELD_ABSENT if before is ABSENT else inner(before, before, after)

    return test


_NEGATED = {
    Verdict.HOLDS: Verdict.VALUE_MISMATCH,
    Verdict.FIELD_ABSENT: Verdict.HOLDS,
    Verdict.VALUE_MISMATCH: Verdict.HOLDS,
    Verdict.PREVIOUS_ABSENT: Verdict.PREVIOUS_ABSENT,
}


def _negation(inner: Test) -> Test:
    return lambda record, before, after: _NEGATED[inner(record, before, after)]


def _conjunction(tests: tuple[Test, ...]) -> Test:
    """The verdict of the first member that surely does not hold; what is not known decides where all others hold."""

    def test(record: Any, before: Any, after: Any) -> Verdict:
        answer = Verdict.HOLDS
        for member in tests:
            verdict = member(record, before, after)
            if verdict is Verdict.PREVIOUS_ABSENT:
                answer = verdict
            elif verdict is not Verdict.HOLDS:
                return verdict
        return answer

    return test


def _disjunction(tests: tuple[Test, ...]) -> Test:
    """Holds where a member holds; else what is not known decides, else the verdict of the first member."""

    def test(record: Any, before: Any, after: Any) -> Verdict:
        answer: Verdict | None = None
        for member in tests:
            verdict = member(record, before, after)
            if verdict is Verdict.HOLDS:
                return verdict
            if answer is None or verdict is Verdict.PREVIOUS_ABSENT:
                answer = verdict
        assert answer is not None  # noqa: S101 - a branch has at least one member, checked when it was read
        return answer

    return test
