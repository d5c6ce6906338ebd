"""The match contract: the reference's acceptance list C1 to C10 and its vectors, and what our version 2 adds."""

import json
from typing import Any

import pytest

from apps.http import canonical_json
from apps.triggers import contract
from apps.triggers.contract import Change, Decision, Reason, Terms
from apps.triggers.predicate import ABSENT, parse
from feltdb_engine.model import Actor, Operation

VECTOR = (
    b'{"change":{"change_kind":"insert","collection":"orders","value":{"status":"paid","total":42}},'
    b'"contract":"feltdb.trigger.match","trigger":{"change_kind":"insert","enabled":true,'
    b'"predicate":{"equals":"paid","field":"status"},"source_collection":"orders"},"version":1}'
)
VECTOR_DIGEST = "sha256:b1dc57f75ee3ad3847e3060748a6da1ef72e0818e3f46ca2f97af6157d4bf6ae"


def change(value: Any = ABSENT, *, kind: str = "insert", collection: str = "orders") -> Change:
    return Change(change_kind=kind, collection=collection, value=value)


def terms(predicate: Any = None, *, kind: str = "insert", collection: str = "orders", enabled: bool = True) -> Terms:
    return Terms(
        change_kind=kind,
        enabled=enabled,
        source_collection=collection,
        predicate=None if predicate is None else parse(predicate),
    )


def reason(a_change: Change, some_terms: Terms) -> str:
    decision = contract.decide(a_change, some_terms)
    assert decision.matched is (decision.reason is Reason.MATCHED)
    return decision.reason.value


def wire(document: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(contract.decide_wire(json.dumps(document).encode()))
    assert answer.pop("contract") == "feltdb.trigger.match"
    return answer


# C1
def test_checks_run_in_a_fixed_order() -> None:
    """Each line mends the first failure of the line before; the reason moves on one check at a time."""
    paid = {"field": "status", "equals": "paid"}
    steps = [
        (terms(paid, kind="update", collection="other", enabled=False), change(), "trigger_disabled"),
        (terms(paid, kind="update", collection="other"), change(), "collection_mismatch"),
        (terms(paid, kind="update"), change(), "change_kind_mismatch"),
        (terms(paid), change(), "change_value_absent"),
        (terms(paid), change({"total": 1}), "predicate_field_absent"),
        (terms(paid), change({"status": "draft"}), "predicate_value_mismatch"),
        (terms(paid), change({"status": "paid"}), "matched"),
    ]
    assert [reason(a_change, some_terms) for some_terms, a_change, _ in steps] == [why for _, _, why in steps]


def test_without_a_predicate_a_change_without_a_value_matches() -> None:
    assert reason(change(), terms()) == "matched"


# C2
def test_absent_and_null_record_values_are_different_inputs() -> None:
    whole_is_null = terms({"field": "", "equals": None})
    assert reason(change(None), whole_is_null) == "matched"
    assert reason(change(), whole_is_null) == "change_value_absent"
    assert contract.input_digest(change(None), whole_is_null) != contract.input_digest(change(), whole_is_null)


# C3
def test_a_missing_field_is_not_a_null_field() -> None:
    is_null = terms({"field": "note", "equals": None})
    assert reason(change({"note": None}), is_null) == "matched"
    assert reason(change({}), is_null) == "predicate_field_absent"
    assert reason(change({"a": None}), terms({"field": "a.b", "equals": None})) == "predicate_field_absent"


# C4
def test_field_paths_descend_through_objects_only() -> None:
    value = {"customer": {"country": "DE"}, "tags": ["x"], "a.b": 1, "": {"": 2}}
    assert reason(change(value), terms({"field": "customer.country", "equals": "DE"})) == "matched"
    assert reason(change(value), terms({"field": "tags.0", "equals": "x"})) == "predicate_field_absent"
    assert reason(change(value), terms({"field": "a.b", "equals": 1})) == "predicate_field_absent"
    assert reason(change(value), terms({"field": "missing", "equals": 1})) == "predicate_field_absent"
    assert reason(change(value), terms({"field": ".", "equals": 2})) == "matched"
    assert reason(change({"x": 1}), terms({"field": "", "equals": {"x": 1}})) == "matched"


# C5
def test_canonical_encoding_sorts_members_and_gives_the_vector() -> None:
    a_change = change({"total": 42, "status": "paid"})
    some_terms = terms({"field": "status", "equals": "paid"})
    assert contract.canonical_input(a_change, some_terms) == VECTOR
    assert contract.input_digest(a_change, some_terms) == VECTOR_DIGEST


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1e21, "1e+21"),
        (0.00001, "0.00001"),
        (1e-6, "1e-6"),
        (1e-7, "1e-7"),
        (1.5e300, "1.5e+300"),
        (9007199254740993, "9007199254740993"),
        (2**64 - 1, "18446744073709551615"),
        ("é/\u007f\n\u0001", '"é/\u007f\\n\\u0001"'),
        ({"b": 1, "a": 2, "é": 3, "z": 4, "Z": 5}, '{"Z":5,"a":2,"b":1,"z":4,"é":3}'),
    ],
)
def test_each_value_has_one_canonical_form(value: Any, text: str) -> None:
    assert canonical_json.dumps(value) == text.encode()


# C6
def test_canonical_encoding_omits_an_absent_value_and_keeps_a_null_one() -> None:
    assert b'"value"' not in contract.canonical_input(change(), terms())
    assert b'"value":null' in contract.canonical_input(change(None), terms())
    assert b'"predicate"' not in contract.canonical_input(change(None), terms())


# C7
@pytest.mark.parametrize(
    ("value", "predicate"),
    [
        (ABSENT, None),
        (None, {"field": "", "equals": None}),
        ({"z": [1, 1.0, -0.0, 1e-7, 1e16, 2**63, True, None, "é"], "a": {}}, {"equals": 1.0, "field": "z"}),
        ({"n": 3}, {"all": [{"field": "n", "op": "gt", "value": 2}, {"not": {"field": "m", "equals": 1}}]}),
    ],
)
def test_canonical_round_trip_is_stable(value: Any, predicate: Any) -> None:
    first = contract.canonical_input(change(value), terms(predicate))
    read_change, read_terms = contract.read_input(first)
    assert contract.canonical_input(read_change, read_terms) == first
    assert contract.input_digest(read_change, read_terms) == contract.input_digest(change(value), terms(predicate))


# C8
def test_inputs_that_cannot_be_decided_are_answers_and_never_match() -> None:
    good = json.loads(VECTOR)
    assert wire(good) == {"version": 1, "outcome": {"matched": True, "reason": "matched"}}
    assert wire({**good, "contract": "other"}) == {"version": 1, "error": {"code": "CONTRACT_ID_MISMATCH"}}
    assert wire({**good, "version": 9}) == {"version": 1, "error": {"code": "CONTRACT_VERSION_UNSUPPORTED"}}
    assert json.loads(contract.decide_wire(b"garbage"))["error"] == {"code": "CONTRACT_INPUT_INVALID"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"\xff",
        VECTOR + b"x",
        VECTOR.replace(b'"version":1', b'"version":1,"version":1'),
        VECTOR.replace(b'"version":1', b'"version":true'),
        VECTOR.replace(b'"version":1', b'"version":1,"extra":1'),
        VECTOR.replace(b'"version":1', b'"version":2'),
        VECTOR.replace(b'"enabled":true', b'"enabled":1'),
        VECTOR.replace(b'"enabled":true,', b""),
        VECTOR.replace(b'"change_kind":"insert","collection"', b'"change_kind":"upsert","collection"'),
        VECTOR.replace(b'"equals":"paid","field":"status"', b'"field":"status"'),
        VECTOR.replace(b'"equals":"paid","field":"status"', b'"field":"status","op":"gt","value":1'),
        VECTOR.replace(b"42", b"NaN"),
        VECTOR.replace(b"42", b"1e400"),
        VECTOR.replace(b'"total"', b'"\\ud800"'),
        VECTOR.replace(b'{"status":"paid","total":42}', b"[" * 5000 + b"]" * 5000),
    ],
)
def test_input_that_is_not_of_the_contract_is_refused(raw: bytes) -> None:
    assert json.loads(contract.decide_wire(raw)) == {
        "contract": "feltdb.trigger.match",
        "error": {"code": "CONTRACT_INPUT_INVALID"},
        "version": 1,
    }


def test_a_null_predicate_is_no_predicate() -> None:
    document = json.loads(VECTOR)
    document["trigger"]["predicate"] = None
    assert wire(document)["outcome"] == {"matched": True, "reason": "matched"}


@pytest.mark.parametrize(
    ("stored", "wanted", "outcome"),
    [
        ("1", "1.0", "predicate_value_mismatch"),
        ("100", "1e2", "predicate_value_mismatch"),
        ("1.0", "1.00", "matched"),
        ("1e2", "100.0", "matched"),
        ("0.0", "-0.0", "matched"),
        ("-0", "-0.0", "matched"),
        ("-0", "0", "predicate_value_mismatch"),
        ("true", "1", "predicate_value_mismatch"),
        ("1", '"1"', "predicate_value_mismatch"),
        ('{"x":1,"y":2}', '{"y":2,"x":1}', "matched"),
        ('{"x":1,"y":2}', '{"x":1}', "predicate_value_mismatch"),
        ("[1,2]", "[2,1]", "predicate_value_mismatch"),
        ("[1,{}]", "[1,{}]", "matched"),
        ("[1]", "[1.0]", "predicate_value_mismatch"),
        ("9007199254740993", "9007199254740992", "predicate_value_mismatch"),
        ("18446744073709551616", "18446744073709551617", "matched"),
        ('"\u00e9"', '"e\u0301"', "predicate_value_mismatch"),
    ],
)
def test_equality_is_of_json_values_without_coercion(stored: str, wanted: str, outcome: str) -> None:
    raw = VECTOR.replace(b'"paid","total":42', f"{stored}".encode()).replace(
        b'"equals":"paid"', f'"equals":{wanted}'.encode()
    )
    assert json.loads(contract.decide_wire(raw))["outcome"]["reason"] == outcome


# C9
def test_the_contract_reads_only_what_the_decision_depends_on() -> None:
    def operation(sequence: int) -> Operation:
        return Operation(
            sequence=sequence,
            instance_id=f"i{sequence}",
            transaction_id=f"t{sequence}",
            kind="insert",
            collection="orders",
            id=f"o{sequence}",
            version=sequence,
            previous_version=sequence - 1,
            value={"status": "paid"},
            content_hash=f"{sequence:064x}",
            at_ms=sequence,
            actor=Actor(subject=f"s{sequence}"),
        )

    inputs = {
        contract.canonical_input(contract.change_of(operation(sequence)), terms({"field": "status", "equals": "paid"}))
        for sequence in (1, 2, 99)
    }
    assert len(inputs) == 1


# C10
@pytest.mark.parametrize("status", ["paid", "draft"])
def test_the_native_contract_and_its_wire_form_decide_alike(status: str) -> None:
    a_change, some_terms = change({"status": status}), terms({"field": "status", "equals": "paid"})
    decision = contract.decide(a_change, some_terms)
    outcome = json.loads(contract.decide_wire(contract.canonical_input(a_change, some_terms)))["outcome"]
    assert outcome == {"matched": decision.matched, "reason": decision.reason.value}
    assert decision == Decision(
        matched=status == "paid", reason=Reason.MATCHED if status == "paid" else Reason.PREDICATE_VALUE_MISMATCH
    )


def test_a_tree_is_of_version_two_and_says_so() -> None:
    tree = {"any": [{"field": "total", "op": "gte", "value": 100}, {"field": "vip", "equals": True}]}
    a_change, some_terms = change({"total": 120}), terms(tree)
    raw = contract.canonical_input(a_change, some_terms)
    assert json.loads(raw)["version"] == 2
    assert json.loads(contract.decide_wire(raw)) == {
        "contract": "feltdb.trigger.match",
        "outcome": {"matched": True, "reason": "matched"},
        "version": 2,
    }


# the record before an update: version 2
MOVED = {"all": [{"changed": "status"}, {"was": {"equals": "draft", "field": "status"}}]}
MOVED_VECTOR = (
    b'{"change":{"change_kind":"update","collection":"orders","previous":{"status":"draft"},"value":{"status":"paid"}},'
    b'"contract":"feltdb.trigger.match","trigger":{"change_kind":"update","enabled":true,'
    b'"predicate":{"all":[{"changed":"status"},{"was":{"equals":"draft","field":"status"}}]},'
    b'"source_collection":"orders"},"version":2}'
)
MOVED_DIGEST = "sha256:2ecfe84a65191eb6acfb42427f96b2ab16eb0cf6513215f719cc20139dfba221"


def moved(previous: Any = ABSENT, kind: str = "update") -> Change:
    return Change(change_kind=kind, collection="orders", value={"status": "paid"}, previous=previous)


def test_the_record_before_an_update_is_part_of_the_input_that_asks_for_it() -> None:
    a_change, some_terms = moved({"status": "draft"}), terms(MOVED, kind="update")
    assert contract.canonical_input(a_change, some_terms) == MOVED_VECTOR
    assert contract.input_digest(a_change, some_terms) == MOVED_DIGEST
    assert wire(json.loads(MOVED_VECTOR)) == {"version": 2, "outcome": {"matched": True, "reason": "matched"}}


def test_the_record_before_takes_no_part_where_nobody_asks_for_it() -> None:
    paid = {"field": "status", "equals": "paid"}
    with_it, without = moved({"status": "draft"}), moved()
    assert contract.canonical_input(with_it, terms(paid, kind="update")) == contract.canonical_input(
        without, terms(paid, kind="update")
    )
    document = json.loads(contract.canonical_input(without, terms(paid, kind="update")))
    document["change"]["previous"] = {}
    assert wire(document)["error"] == {"code": "CONTRACT_INPUT_INVALID"}


@pytest.mark.parametrize("kind", ["insert", "delete"])
def test_only_an_update_has_a_record_before_it_in_the_input(kind: str) -> None:
    document = json.loads(MOVED_VECTOR)
    document["change"]["change_kind"] = document["trigger"]["change_kind"] = kind
    assert wire(document)["error"] == {"code": "CONTRACT_INPUT_INVALID"}
    del document["change"]["previous"]
    assert wire(document)["outcome"]["matched"] is False


def test_an_update_that_does_not_carry_the_record_before_it_does_not_match_and_says_why() -> None:
    document = json.loads(MOVED_VECTOR)
    del document["change"]["previous"]
    assert wire(document) == {"version": 2, "outcome": {"matched": False, "reason": "change_previous_absent"}}


def test_a_delete_is_asked_what_it_removed_as_record_and_as_the_record_before() -> None:
    was_paid = {"all": [{"was": {"field": "status", "equals": "paid"}}, {"changed": "status"}]}
    assert reason(moved(kind="delete"), terms(was_paid, kind="delete")) == "matched"
    assert reason(moved(kind="delete"), terms({"changed": "total"}, kind="delete")) == "predicate_value_mismatch"
