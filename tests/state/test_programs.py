"""The one check of declared programs: at each limit and one beyond it, with the place of what does not fit."""

import pytest

from apps.http.errors import ApiError
from apps.state import programs
from apps.state.programs import read_name, read_program

GOOD = {
    "steps": [
        {"op": "search", "collection": "orders", "query": "paid", "limit": 500},
        {"op": "filter_eq", "field": "status", "value": None},
        {"op": "project", "fields": ["id", "total"]},
        {"op": "limit", "count": 0},
        {"op": "identity"},
    ]
}


def test_a_program_is_read_and_stored_as_it_was_given():
    assert read_program(GOOD).record() == GOOD
    assert [step.op for step in read_program(GOOD).steps] == ["search", "filter_eq", "project", "limit", "identity"]
    assert read_program({"steps": [{"op": "search"}]}).steps[0].members == {}
    assert len(read_program({"steps": [{"op": "identity"}] * 16}).steps) == 16
    read_program({"steps": [{"op": "project", "fields": ["f"] * 32}, {"op": "limit", "count": 500}]})
    read_program({"steps": [{"op": "search", "query": "x" * 512, "limit": 1}]})


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (None, ""),
        ([], ""),
        ({}, "/steps"),
        ({"steps": {}}, "/steps"),
        ({"steps": []}, "/steps"),
        ({"steps": [{"op": "identity"}] * 17}, "/steps"),
        ({**GOOD, "name": "x"}, "/name"),
        ({"steps": ["identity"]}, "/steps/0"),
        ({"steps": [{}]}, "/steps/0/op"),
        ({"steps": [{"op": "delete"}]}, "/steps/0/op"),
        ({"steps": [{"op": ["identity"]}]}, "/steps/0/op"),
        ({"steps": [{"op": "identity", "count": 1}]}, "/steps/0/count"),
        ({"steps": [{"op": "identity"}, {"op": "search", "limit": 501}]}, "/steps/1/limit"),
        ({"steps": [{"op": "search", "limit": 0}]}, "/steps/0/limit"),
        ({"steps": [{"op": "search", "limit": True}]}, "/steps/0/limit"),
        ({"steps": [{"op": "search", "limit": 1.0}]}, "/steps/0/limit"),
        ({"steps": [{"op": "search", "query": ""}]}, "/steps/0/query"),
        ({"steps": [{"op": "search", "query": "x" * 513}]}, "/steps/0/query"),
        ({"steps": [{"op": "search", "collection": ""}]}, "/steps/0/collection"),
        ({"steps": [{"op": "search", "collection": "_keys"}]}, "/steps/0/collection"),
        ({"steps": [{"op": "filter_eq", "value": 1}]}, "/steps/0/field"),
        ({"steps": [{"op": "filter_eq", "field": "a"}]}, "/steps/0/value"),
        ({"steps": [{"op": "project"}]}, "/steps/0/fields"),
        ({"steps": [{"op": "project", "fields": []}]}, "/steps/0/fields"),
        ({"steps": [{"op": "project", "fields": ["f"] * 33}]}, "/steps/0/fields"),
        ({"steps": [{"op": "project", "fields": ["f", 1]}]}, "/steps/0/fields/1"),
        ({"steps": [{"op": "limit"}]}, "/steps/0/count"),
        ({"steps": [{"op": "limit", "count": 501}]}, "/steps/0/count"),
        ({"steps": [{"op": "limit", "count": -1}]}, "/steps/0/count"),
    ],
)
def test_what_is_no_program_is_refused_with_its_place(body, pointer):
    with pytest.raises(ApiError) as refused:
        read_program(body)
    assert (refused.value.code, refused.value.details) == ("VALIDATION_ERROR", {"pointer": pointer})


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 128])
def test_a_good_name(name):
    assert read_name(name) == name


@pytest.mark.parametrize("name", ["", "a.b", "a b", "é", "x" * 129, "a\n", *sorted(programs.BUILT_IN)])
def test_a_bad_name_is_refused(name):
    with pytest.raises(ApiError) as refused:
        read_name(name)
    assert refused.value.details == {"field": "name"}
