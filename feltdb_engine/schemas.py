"""JSON Schema 2020-12 for the values of a collection, with its cost bounded. The library is `jsonschema`.

What differs from the library, so that no schema and no value can stop a writer:

- Patterns are RE2's: linear in the text. What RE2 does not know (look-around, back-references) is refused.
- Every keyword applied takes steps of a budget, more for large values; a check that runs out is a breach ("cost").
- `$ref` leads inside the schema (`#...`). Refused: `$id`, `$dynamicRef`, `$dynamicAnchor`, `unevaluatedItems`,
  `unevaluatedProperties`.
- `uniqueItems` takes one look at each item.

`format` is checked for those in FORMATS; others are refused, so that nobody believes in a check that is not made.
Numbers are JSON Schema's: 1.0 is an integer, and equals 1 in `const`, `enum` and `uniqueItems`.
"""

import ipaddress
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from typing import Any, Final, NamedTuple

import orjson
import re2
import referencing
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from feltdb_engine import limits
from feltdb_engine.errors import ContractInvalid

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_REFUSED: Final = ("$id", "$dynamicRef", "$dynamicAnchor", "unevaluatedItems", "unevaluatedProperties")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE: Final = ("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames")


class Breach(NamedTuple):
    """One way in which a value breaks a schema. `pointer` leads into the value."""

    pointer: str
    keyword: str
    message: str


class _Costly(Exception):
    pass


class _Run(threading.local):
    """The check that this thread is at."""

    left = 0
    per_error = 1
    inner: dict[int, Any]
    patterns: Mapping[str, Any]


_run = _Run()


def _spend(steps: int) -> None:
    _run.left -= steps
    if _run.left < 0:
        raise _Costly


def _size(value: Any) -> int:
    return len(value) >> 4 if type(value) in (dict, list, str) else 0


def _counted(check: Callable[..., Iterable[ValidationError] | None]) -> Callable[..., Iterator[ValidationError]]:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _spend(1 + _size(value) + _size(instance))
        for error in check(validator, value, instance, schema) or ():
            _spend(_run.per_error)
            yield error

    return counted


def _into(validator: Any, instance: Any, schema: Any, path: str | int) -> Iterator[ValidationError]:
    """As the library's `descend`, with the inner validator remembered: no schema here has an id of its own."""
    if schema is True:
        return
    inner = _run.inner.get(id(schema))
    if inner is None:
        inner = _run.inner[id(schema)] = validator.evolve(schema=schema)
    for error in inner.iter_errors(instance):
        error.path.appendleft(path)
        yield error


def _properties(validator: Any, members: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if type(instance) is dict:
        for name, schema in members.items():
            if name in instance:
                yield from _into(validator, instance[name], schema, name)


def _pattern_properties(validator: Any, members: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if type(instance) is dict:
        for pattern, schema in members.items():
            found = _run.patterns[pattern]
            for name, member in instance.items():
                _spend(1)
                if found.search(name):
                    yield from _into(validator, member, schema, name)


def _additional_properties(validator: Any, rest: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if type(instance) is not dict:
        return
    known = schema.get("properties", {})
    patterns = [_run.patterns[one] for one in schema.get("patternProperties", {})]
    for name, member in instance.items():
        if name in known:
            continue
        _spend(1 + len(patterns))
        if any(one.search(name) for one in patterns):
            continue
        if rest is False:
            error = ValidationError("There is no such member.")
            error.path.appendleft(name)
            yield error
        else:
            yield from _into(validator, member, rest, name)


def _items(validator: Any, rest: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if type(instance) is list:
        for place in range(len(schema.get("prefixItems", ())), len(instance)):
            if rest is False:
                yield ValidationError("There are too many items.")
                return
            yield from _into(validator, instance[place], rest, place)


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if type(instance) is str and not _run.patterns[pattern].search(instance):
        yield ValidationError(f"It does not match {pattern!r}.")


def _unique_items(_validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if wanted and type(instance) is list:
        seen = {orjson.dumps(_plain(one), option=orjson.OPT_SORT_KEYS) for one in instance}
        _spend(_run.per_error)
        if len(seen) != len(instance):
            yield ValidationError("It has an item twice.")


def _plain(value: Any) -> Any:
    """The same for numbers that are equal."""
    if type(value) is float and value.is_integer() and abs(value) < 1 << 63:
        return int(value)
    if type(value) is list:
        return [_plain(one) for one in value]
    if type(value) is dict:
        return {name: _plain(one) for name, one in value.items()}
    return value


_OWN: Final[dict[str, Any]] = {
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "items": _items,
    "pattern": _pattern,
    "uniqueItems": _unique_items,
}
_Bounded = extend(
    Draft202012Validator,
    {name: _counted(_OWN.get(name, check)) for name, check in Draft202012Validator.VALIDATORS.items()},
)

FORMATS: Final = FormatChecker(formats=())
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII)
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _format(name: str) -> Callable[[Callable[[str], object]], Callable[[str], object]]:
    def register(check: Callable[[str], object]) -> Callable[[str], object]:
        FORMATS.checks(name, raises=ValueError)(lambda value: type(value) is not str or bool(check(value)))
        return check

    return register


@_format("date")
def _is_date(text: str) -> object:
    return len(text) == 10 and date.fromisoformat(text)


@_format("time")
def _is_time(text: str) -> object:
    return _TIME.fullmatch(text)


@_format("date-time")
def _is_date_time(text: str) -> object:
    return len(text) > 11 and text[10] in "Tt " and _is_date(text[:10]) and _is_time(text[11:].upper())


@_format("email")
def _is_email(text: str) -> object:
    return _EMAIL.fullmatch(text)


@_format("ipv4")
def _is_ipv4(text: str) -> object:
    return ipaddress.IPv4Address(text)


@_format("ipv6")
def _is_ipv6(text: str) -> object:
    return "%" not in text and ipaddress.IPv6Address(text)


@_format("uri")
def _is_uri(text: str) -> object:
    return _URI.fullmatch(text)


@_format("uuid")
def _is_uuid(text: str) -> object:
    return _UUID.fullmatch(text) and uuid.UUID(text)


class Schema:
    """A schema, compiled. Any number of threads may check with it."""

    def __init__(self, schema: Mapping[str, Any] | bool, pointer: str) -> None:
        """Raises ContractInvalid with the place, `pointer` before it."""
        data = orjson.dumps(schema)
        if len(data) > limits.SCHEMA_MAX_BYTES:
            raise ContractInvalid(f"A schema takes at most {limits.SCHEMA_MAX_BYTES} bytes.", pointer=pointer)
        kept = orjson.loads(data)
        self._patterns: dict[str, Any] = {}
        self._inner: dict[int, Any] = {}
        self._known: set[int] = set()  # the schemas in it that were looked at
        _meta(kept, pointer)
        self._look(kept, pointer, 1)
        self._validator = _Bounded(kept, registry=referencing.Registry(), format_checker=FORMATS)
        self._resolve(kept, pointer)

    def breaches(self, value: Any, size: int) -> list[Breach]:
        """How a value of `size` encoded bytes breaks the schema: at most SCHEMA_MAX_BREACHES ways."""
        _run.left = limits.SCHEMA_MAX_STEPS
        _run.per_error = 1 + (size >> 8)
        _run.inner, _run.patterns = self._inner, self._patterns
        found: list[Breach] = []
        try:
            for error in self._validator.iter_errors(value):
                found.append(_breach(error))
                if len(found) == limits.SCHEMA_MAX_BREACHES:
                    break
        except (_Costly, RecursionError):
            found.append(Breach("", "cost", "Checking it against the schema takes too long."))
        return found

    def _look(self, node: Any, pointer: str, depth: int) -> None:
        """Refuse what is not bounded; compile the patterns."""
        if type(node) is bool:
            return
        if depth > limits.SCHEMA_MAX_DEPTH:
            raise ContractInvalid(f"A schema nests at most {limits.SCHEMA_MAX_DEPTH} deep.", pointer=pointer)
        self._known.add(id(node))
        for name in _REFUSED:
            if name in node:
                raise ContractInvalid(f"{name} is not served.", pointer=f"{pointer}/{name}")
        if node.get("$schema", _DRAFT).rstrip("#") != _DRAFT:
            raise ContractInvalid("Schemas are of JSON Schema 2020-12.", pointer=pointer + "/$schema")
        if not node.get("$ref", "#").startswith("#"):
            raise ContractInvalid("A $ref leads inside its schema: it begins with #.", pointer=pointer + "/$ref")
        if "format" in node and node["format"] not in FORMATS.checkers:
            raise ContractInvalid(
                "The formats checked are " + ", ".join(sorted(FORMATS.checkers)) + ".", pointer=pointer + "/format"
            )
        if "pattern" in node:
            self._compile(node["pattern"], pointer + "/pattern")
        for pattern in node.get("patternProperties", ()):
            self._compile(pattern, f"{pointer}/patternProperties/{_escape(pattern)}")
        for place, inner in _subschemas(node):
            self._look(inner, pointer + place, depth + 1)

    def _compile(self, pattern: str, pointer: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = limits.PATTERN_MAX_MEMORY_BYTES
        try:
            self._patterns[pattern] = re2.compile(pattern, options)
        except re2.error as error:
            reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
            raise ContractInvalid(f"This pattern cannot be served: {reason}.", pointer=pointer) from error

    def _resolve(self, node: Any, pointer: str) -> None:
        """Every $ref leads to a schema."""
        if type(node) is bool:
            return
        if "$ref" in node:
            try:
                found = self._validator._resolver.lookup(node["$ref"]).contents
            except (referencing.exceptions.Unresolvable, LookupError, ValueError, TypeError):
                found = None
            if type(found) is not bool and id(found) not in self._known:
                raise ContractInvalid("This $ref leads to no schema in here.", pointer=pointer + "/$ref")
        for place, inner in _subschemas(node):
            self._resolve(inner, pointer + place)


def _meta(schema: Any, pointer: str) -> None:
    """That it is a schema at all."""
    meta = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    try:
        error = next(meta.iter_errors(schema), None)
    except RecursionError:
        raise ContractInvalid("A schema nests too deep.", pointer=pointer) from None
    if error is not None:
        place = "".join(f"/{_escape(str(step))}" for step in error.absolute_path)
        raise ContractInvalid(f"This is no JSON Schema: {error.message[:200]}.", pointer=pointer + place)


def _subschemas(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in _MAPS:
        for member, inner in node.get(name, {}).items():
            yield f"/{name}/{_escape(member)}", inner
    for name in _LISTS:
        for place, inner in enumerate(node.get(name, ())):
            yield f"/{name}/{place}", inner
    for name in _SINGLE:
        if name in node:
            yield f"/{name}", node[name]


def _breach(error: ValidationError) -> Breach:
    pointer = "".join(f"/{_escape(str(step))}" for step in error.path)
    keyword = str(error.validator) if error.validator is not None else "false"
    wanted = error.validator_value
    message = error.message
    if keyword not in _OWN:
        said = orjson.dumps(wanted).decode() if keyword in _SAYS else ""
        message = _SAYS.get(keyword, "It breaks {keyword}.").format(keyword=keyword, wanted=said)[:200]
    if keyword == "required":
        message = error.message[:200]
    return Breach(pointer, keyword, message)


_SAYS: Final = {
    "type": "It is not of type {wanted}.",
    "enum": "It is none of {wanted}.",
    "const": "It is not {wanted}.",
    "format": "It is no {wanted}.",
    "minimum": "It is less than {wanted}.",
    "maximum": "It is more than {wanted}.",
    "exclusiveMinimum": "It is not more than {wanted}.",
    "exclusiveMaximum": "It is not less than {wanted}.",
    "multipleOf": "It is no multiple of {wanted}.",
    "minLength": "It has fewer than {wanted} characters.",
    "maxLength": "It has more than {wanted} characters.",
    "minItems": "It has fewer than {wanted} items.",
    "maxItems": "It has more than {wanted} items.",
    "minProperties": "It has fewer than {wanted} members.",
    "maxProperties": "It has more than {wanted} members.",
}


def _escape(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
