"""JSON Schema: what is checked, what is refused, and that no schema and no value takes long."""

import time
from typing import Any

import pytest

from feltdb_engine import errors, limits
from feltdb_engine.schemas import FORMATS, Schema


def breaks(schema: Any, value: Any) -> list[tuple[str, str]]:
    """Pointer and keyword of each breach."""
    return [(one.pointer, one.keyword) for one in Schema(schema, "").breaches(value, len(str(value)))]


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "keyword"),
    [
        ({"type": "integer"}, 1, "1", "type"),
        ({"type": "integer"}, 1.0, 1.5, "type"),
        ({"type": "number"}, 1.5, True, "type"),
        ({"type": ["string", "null"]}, None, 1, "type"),
        ({"enum": ["a", 1]}, 1.0, "b", "enum"),
        ({"const": {"a": [1]}}, {"a": [1.0]}, {"a": [True]}, "const"),
        ({"minimum": 2**63}, 2**64 - 1, 2**63 - 1, "minimum"),
        ({"exclusiveMaximum": 3}, 2.9, 3, "exclusiveMaximum"),
        ({"multipleOf": 0.5}, 1.5, 1.4, "multipleOf"),
        ({"minLength": 2}, "ää", "ä", "minLength"),
        ({"maxItems": 1}, [1], [1, 2], "maxItems"),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}, {"a": True}], [{"a": 1}, {"a": 1.0}], "uniqueItems"),
        ({"pattern": "^a+$"}, "aaa", "ab", "pattern"),
        ({"pattern": "b"}, "abc", "ac", "pattern"),
        ({"pattern": "^\\p{L}+$"}, "äß", "1", "pattern"),
        ({"format": "date"}, "2024-02-29", "2023-02-29", "format"),
        ({"format": "date"}, 7, "20240101", "format"),
        ({"format": "date-time"}, "2024-02-29T23:59:59.5+02:00", "2024-02-29T24:00:00Z", "format"),
        ({"format": "date-time"}, "2024-01-01t00:00:00z", "2024-01-01T00:00:00", "format"),
        ({"format": "time"}, "00:00:00Z", "00:00Z", "format"),
        ({"format": "email"}, "a@b", "a b@c", "format"),
        ({"format": "ipv4"}, "127.0.0.1", "127.0.0.01", "format"),
        ({"format": "ipv6"}, "::1", "::1%eth0", "format"),
        ({"format": "uri"}, "urn:a:b?c#d", "/a", "format"),
        ({"format": "uuid"}, "123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "format"),
        ({"contains": {"const": 1}}, [0, 1], [0], "contains"),
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 5, 4, "anyOf"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, 4, 5, "oneOf"),
        ({"not": {"type": "null"}}, 0, None, "not"),
        ({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "null"}}, None, "", "minLength"),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}, "dependentRequired"),
        ({"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}, "maxLength"),
        ({"required": ["a"]}, {"a": None}, {}, "required"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}, None, 1, "type"),
        ({"$ref": "#n", "$defs": {"n": {"$anchor": "n", "type": "null"}}}, None, 1, "type"),
    ],
)
def test_keywords(schema: Any, good: Any, bad: Any, keyword: str) -> None:
    assert breaks(schema, good) == []
    assert [found for _, found in breaks(schema, bad)] == [keyword]


def test_breaches_name_their_place_and_what_was_wanted() -> None:
    schema = obj(
        a={"type": "array", "prefixItems": [{"type": "null"}], "items": obj(b={"type": "string"})},
        **{"x/y~z": {"const": 1}},
    ) | {"patternProperties": {"^p_": {"type": "integer"}}, "additionalProperties": False, "required": ["r"]}
    value = {"a": [1, {"b": "x"}, {"b": 1}], "x/y~z": 2, "p_1": "no", "p_2": 5, "else": 0}
    assert sorted(breaks(schema, value)) == [
        ("", "required"),
        ("/a/0", "type"),
        ("/a/2/b", "type"),
        ("/else", "additionalProperties"),
        ("/p_1", "type"),
        ("/x~1y~0z", "const"),
    ]
    messages = {one.message for one in Schema(schema, "").breaches(value, 1)}
    assert 'It is not of type "string".' in messages and "'r' is a required property" in messages


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "int"}, "/type"),
        ({"properties": []}, "/properties"),
        ({"pattern": "(?=a)"}, "/pattern"),
        ({"properties": {"a/b": {"pattern": "(a)\\1"}}}, "/properties/a~1b/pattern"),
        ({"patternProperties": {"(": True}}, "/patternProperties/("),
        ({"items": {"format": "color"}}, "/items/format"),
        ({"$ref": "https://example.com/a"}, "/$ref"),
        ({"$ref": "other.json#/a"}, "/$ref"),
        ({"$ref": "#/$defs/none"}, "/$ref"),
        ({"$ref": "#/x", "x": {"pattern": "(a+)+$"}}, "/$ref"),
        ({"$ref": "#/const", "const": {"type": "null"}}, "/$ref"),
        ({"anyOf": [{"$id": "https://example.com/a"}]}, "/anyOf/0/$id"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema"),
        ({"unevaluatedProperties": False}, "/unevaluatedProperties"),
        ({"$dynamicRef": "#a"}, "/$dynamicRef"),
        ({"description": "x" * limits.SCHEMA_MAX_BYTES}, ""),
    ],
)
def test_what_is_no_schema_or_cannot_be_bounded_is_refused_with_its_place(schema: Any, pointer: str) -> None:
    with pytest.raises(errors.ContractInvalid) as refused:
        Schema(schema, "/at")
    assert refused.value.details["pointer"] == "/at" + pointer


def test_a_schema_nested_too_deep_is_refused() -> None:
    schema: Any = True
    for _ in range(limits.SCHEMA_MAX_DEPTH - 1):
        schema = {"not": schema}
    Schema(schema, "")
    with pytest.raises(errors.ContractInvalid):
        Schema({"not": {"not": schema}}, "")


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"x": value, "y": value}
    return value


BOMBS = {
    "itself": ({"$ref": "#"}, {}),
    "twice itself": ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}),
    "doubling": (
        {
            "$ref": "#/$defs/d40",
            "$defs": {
                "d0": {"type": "null"},
                **{f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, 41)},
            },
        },
        {},
    ),
    "doubling by depth": (
        {"anyOf": [{"required": ["z"]}, obj(x={"$ref": "#"}, y={"$ref": "#"}), obj(x={"$ref": "#"})]},
        nested(14),
    ),
    "backtracking": ({"pattern": "^(a+)+$"}, "a" * 100_000 + "b"),
    "many patterns": (
        {"patternProperties": {f"({n}|a*)*b$": {"type": "null"} for n in range(500)}},
        {f"{'a' * 100}{n}": 1 for n in range(5_000)},
    ),
    "unlike items": ({"uniqueItems": True}, [[n, str(n)] if n % 2 else {"a": n} for n in range(50_000)]),
    "long enum": ({"items": {"enum": list(range(5_000))}}, [-1] * 50_000),
    "large and many": ({"anyOf": [{"type": "string", "minLength": n} for n in range(1_000)]}, {"a": ["x"] * 200_000}),
    "wide": (obj(**{f"p{n}": True for n in range(3_000)}) | {"items": {"$ref": "#"}}, [{}] * 50_000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_no_schema_and_no_value_takes_long(name: str) -> None:
    schema, value = BOMBS[name]
    compiled = Schema(schema, "")
    began = time.process_time()
    found = compiled.breaches(value, 1 << 20)
    spent = time.process_time() - began
    assert spent < 5, "a generous bound for a slow machine: these would take minutes, or for ever"
    if name not in ("backtracking", "unlike items"):
        assert found[-1].keyword == "cost"
    assert len(found) <= limits.SCHEMA_MAX_BREACHES + 1
    assert compiled.breaches(value, 1 << 20) == found, "the next check begins with a full budget"


def test_the_formats_are_those_that_are_documented() -> None:
    assert sorted(FORMATS.checkers) == ["date", "date-time", "email", "ipv4", "ipv6", "time", "uri", "uuid"]
