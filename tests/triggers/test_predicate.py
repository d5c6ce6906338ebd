"""Predicates: every operator on values of every type, the verdicts of trees, and what is refused when read."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.triggers import limits
from apps.triggers.predicate import Absent, PredicateInvalid, parse, same_json

HOLDS, ABSENT, MISMATCH = "matched", "predicate_field_absent", "predicate_value_mismatch"


def verdict(predicate: Any, value: Any) -> str:
    return parse(predicate).test(value).value


def clause(op: str, value: Any, field: str = "n") -> dict[str, Any]:
    return {"field": field, "op": op, "value": value}


@pytest.mark.parametrize(
    ("op", "wanted", "stored", "holds"),
    [
        ("eq", 1, 1, True),
        ("eq", 1, 1.0, False),
        ("ne", 1, 2, True),
        ("ne", 1, 1, False),
        ("ne", 1, "1", True),
        ("lt", 2, 1, True),
        ("lt", 2, 2, False),
        ("lte", 2, 2, True),
        ("gt", 60, 60.5, True),
        ("gt", 60.5, 61, True),
        ("gt", 60, "61", False),
        ("gt", 0, True, False),
        ("gt", 0, None, False),
        ("gte", 2**53, 2**53 + 1, True),
        ("gt", float(2**53), 2**53 + 1, True),
        ("lt", "b", "a", True),
        ("lt", "a", "Z", True),
        ("gte", "b", "b", True),
        ("in", [1, "a"], "a", True),
        ("in", [1, "a"], 1.0, False),
        ("in", [], 1, False),
        ("contains", "el", "felt", True),
        ("contains", 1, [2, 1], True),
        ("contains", 1, [1.0], False),
        ("contains", "x", {"x": 1}, False),
        ("contains", 1, "1", False),
        ("starts_with", "fe", "felt", True),
        ("starts_with", "el", "felt", False),
        ("starts_with", "1", 12, False),
        ("exists", True, None, True),
        ("exists", False, None, False),
    ],
)
def test_an_operator_compares_within_a_type(op: str, wanted: Any, stored: Any, holds: bool) -> None:
    assert verdict(clause(op, wanted), {"n": stored}) == (HOLDS if holds else MISMATCH)


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "lte", "gt", "gte", "contains"])
def test_a_missing_field_satisfies_no_comparison(op: str) -> None:
    assert verdict(clause(op, "x"), {}) == ABSENT


def test_exists_asks_for_presence_or_absence() -> None:
    assert verdict(clause("exists", True), {}) == ABSENT
    assert verdict(clause("exists", False), {}) == HOLDS


def test_all_gives_the_verdict_of_the_first_that_fails() -> None:
    tree = {"all": [clause("gt", 1), clause("eq", 1, "m"), clause("gt", 100)]}
    assert verdict(tree, {"n": 5}) == ABSENT
    assert verdict(tree, {"n": 5, "m": 1}) == MISMATCH
    assert verdict(tree, {"n": 500, "m": 1}) == HOLDS


def test_any_holds_where_one_holds_and_else_tells_of_the_first() -> None:
    tree = {"any": [clause("eq", 1, "m"), clause("gt", 100)]}
    assert verdict(tree, {"n": 500}) == HOLDS
    assert verdict(tree, {"n": 5}) == ABSENT


def test_not_turns_a_verdict_round_for_missing_fields_too() -> None:
    assert verdict({"not": clause("eq", 1)}, {}) == HOLDS
    assert verdict({"not": clause("eq", 1)}, {"n": 1}) == MISMATCH


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (None, ""),
        ([], ""),
        ({}, ""),
        ({"field": "n"}, ""),
        ({"field": "n", "equals": 1, "op": "eq"}, ""),
        ({"all": [], "any": []}, ""),
        ({"all": []}, "/all"),
        ({"any": {}}, "/any"),
        ({"any": [{"field": "n", "equals": 1}, 7]}, "/any/1"),
        ({"not": {"all": [{"field": 1, "equals": 1}]}}, "/not/all/0/field"),
        ({"field": "n", "op": "like", "value": 1}, "/op"),
        ({"field": "n", "op": ["eq"], "value": 1}, "/op"),
        ({"field": "n", "op": "exists", "value": 1}, "/value"),
        ({"field": "n", "op": "in", "value": "abc"}, "/value"),
        ({"field": "n", "op": "lt", "value": True}, "/value"),
        ({"field": "n", "op": "gt", "value": None}, "/value"),
        ({"field": "n", "op": "starts_with", "value": 1}, "/value"),
    ],
)
def test_what_is_not_a_predicate_is_refused_with_its_place(document: Any, pointer: str) -> None:
    with pytest.raises(PredicateInvalid) as refused:
        parse(document)
    assert refused.value.pointer == pointer


def nested(depth: int) -> Any:
    document: Any = {"field": "n", "equals": 1}
    for _ in range(depth - 1):
        document = {"not": document}
    return document


@pytest.mark.parametrize(
    ("at_the_limit", "beyond"),
    [
        (nested(limits.MAX_PREDICATE_DEPTH), nested(limits.MAX_PREDICATE_DEPTH + 1)),
        (
            {"all": [clause("eq", 1)] * limits.MAX_PREDICATE_CLAUSES},
            {"all": [clause("eq", 1)] * (limits.MAX_PREDICATE_CLAUSES + 1)},
        ),
        (clause("in", [1] * limits.MAX_IN_VALUES), clause("in", [1] * (limits.MAX_IN_VALUES + 1))),
        (clause("eq", 1, "x" * limits.MAX_FIELD_CHARS), clause("eq", 1, "x" * (limits.MAX_FIELD_CHARS + 1))),
    ],
    ids=["depth", "clauses", "in values", "field"],
)
def test_a_limit_holds_at_its_value_and_not_one_beyond(at_the_limit: Any, beyond: Any) -> None:
    parse(at_the_limit)
    with pytest.raises(PredicateInvalid):
        parse(beyond)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(json_values, json_values)
def test_equality_is_symmetric_and_a_value_equals_itself(left: Any, right: Any) -> None:
    assert same_json(left, left)
    assert same_json(left, right) == same_json(right, left)


# the record before
FROM_DRAFT = {"all": [{"changed": "status"}, {"was": {"field": "status", "equals": "draft"}}]}
UNKNOWN_BEFORE = "change_previous_absent"


@pytest.mark.parametrize(
    ("predicate", "before", "after", "says"),
    [
        ({"changed": "n"}, {"n": 1}, {"n": 2}, HOLDS),
        ({"changed": "n"}, {"n": 1, "m": 1}, {"n": 1, "m": 2}, MISMATCH),
        ({"changed": "n"}, {"n": 1}, {"n": 1.0}, HOLDS),
        ({"changed": "n"}, {}, {"n": None}, HOLDS),
        ({"changed": "n"}, {}, {}, MISMATCH),
        ({"changed": "n"}, Absent.ABSENT, {"n": 1}, HOLDS),
        ({"changed": "n"}, {"n": 1}, Absent.ABSENT, HOLDS),
        ({"changed": "n"}, {"m": 1}, Absent.ABSENT, MISMATCH),
        ({"changed": "a.b"}, {"a": {"b": [1, {}]}}, {"a": {"b": [1, {}], "c": 1}}, MISMATCH),
        ({"changed": ""}, {"x": 1, "y": 2}, {"y": 2, "x": 1}, MISMATCH),
        ({"changed": "n"}, Absent.UNKNOWN, {"n": 1}, UNKNOWN_BEFORE),
        ({"was": {"field": "n", "equals": 1}}, {"n": 1}, {"n": 2}, HOLDS),
        ({"was": {"field": "n", "equals": 2}}, {"n": 1}, {"n": 2}, MISMATCH),
        ({"was": {"field": "m", "equals": 2}}, {"n": 1}, {"m": 2}, ABSENT),
        ({"was": {"not": {"field": "n", "equals": 2}}}, Absent.ABSENT, {"n": 1}, ABSENT),
        ({"was": {"any": [clause("gt", 5), clause("exists", False, "m")]}}, {"n": 1}, {"n": 9, "m": 1}, HOLDS),
        (FROM_DRAFT, {"status": "draft"}, {"status": "paid"}, HOLDS),
        (FROM_DRAFT, {"status": "draft"}, {"status": "draft"}, MISMATCH),
        (FROM_DRAFT, {"status": "new"}, {"status": "paid"}, MISMATCH),
        (FROM_DRAFT, Absent.UNKNOWN, {"status": "paid"}, UNKNOWN_BEFORE),
    ],
)
def test_changed_and_was_ask_the_record_before(predicate: Any, before: Any, after: Any, says: str) -> None:
    assert parse(predicate).reads_previous
    assert parse(predicate).test(after, before, after).value == says


YES, NO, OPEN = {"field": "n", "equals": 1}, {"field": "n", "equals": 2}, {"changed": "n"}


@pytest.mark.parametrize(
    ("predicate", "says"),
    [
        ({"all": [OPEN, NO]}, MISMATCH),
        ({"all": [NO, OPEN]}, MISMATCH),
        ({"all": [OPEN, YES]}, UNKNOWN_BEFORE),
        ({"any": [OPEN, YES]}, HOLDS),
        ({"any": [NO, OPEN]}, UNKNOWN_BEFORE),
        ({"any": [OPEN, NO]}, UNKNOWN_BEFORE),
        ({"not": OPEN}, UNKNOWN_BEFORE),
        ({"not": {"all": [OPEN, NO]}}, HOLDS),
        ({"not": {"any": [OPEN, YES]}}, MISMATCH),
    ],
)
def test_what_is_not_known_counts_only_where_the_answer_hangs_on_it(predicate: Any, says: str) -> None:
    assert parse(predicate).test({"n": 1}, Absent.UNKNOWN, {"n": 1}).value == says


@pytest.mark.parametrize(
    ("predicate", "pointer"),
    [
        ({"was": {"was": YES}}, "/was/was"),
        ({"was": {"all": [YES, {"changed": "n"}]}}, "/was/all/1/changed"),
        ({"was": {"not": {"was": YES}}}, "/was/not/was"),
        ({"was": "n"}, "/was"),
        ({"changed": 1}, "/changed"),
        ({"changed": "x" * (limits.MAX_FIELD_CHARS + 1)}, "/changed"),
        ({"changed": "n", "was": YES}, ""),
        (
            {"all": [{"changed": "n"}] * (limits.MAX_PREDICATE_CLAUSES + 1)},
            f"/all/{limits.MAX_PREDICATE_CLAUSES}/changed",
        ),
    ],
)
def test_what_is_no_question_about_the_record_before_is_refused_at_its_place(predicate: Any, pointer: str) -> None:
    with pytest.raises(PredicateInvalid) as refused:
        parse(predicate)
    assert refused.value.pointer == pointer


def test_a_predicate_that_does_not_ask_for_the_record_before_says_so() -> None:
    assert not parse({"all": [YES, {"not": NO}]}).reads_previous
