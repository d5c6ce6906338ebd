"""Exchanges with the reference server, and what of an answer is compared: facets, each under a name.

    status            the status                      body            object, list, text, events or empty
    member /p x       object at /p has member x       value /p        what is at /p (or whether a pattern fits it)
    header x          the header's value, "there", or None where there is none

A row says what the reference answers. `differs` names, for each facet where FeltDB's answer is another, the difference
by its name in `docs/reference-differences.md`. Not here: the rows (`rows_*.py`), and who compares
(`test_differences.py` with FeltDB, `python -m tests.reference` with the reference server itself).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Facets = dict[str, Any]

THERE = "there"
"""A header that must be there, whatever its value."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request and the reference's answer to it.

    `key` is `all` (every scope), `reader` (state:read and events:read) or None. `$name` in target and body stands for
    what an exchange before kept: `keep` says under which name and at which of the pointers. `members` are those of the
    object at `into`.
    """

    says: str
    send: str
    status: int
    body: Any = None
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str | None = "all"
    answer: str = "object"
    members: str | None = None
    into: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    answer_headers: Mapping[str, str | None] = field(default_factory=dict)
    keep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    differs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server sent; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def named(name: str, *facets: str) -> dict[str, str]:
    """Return that these facets differ, for the difference of this name."""
    return dict.fromkeys(facets, name)


def at(value: Any, pointer: str) -> Any:
    """Return what is at the JSON pointer, None where nothing is."""
    for step in pointer.split("/")[1:]:
        if type(value) is list and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        elif type(value) is dict:
            value = value.get(step)
        else:
            return None
    return value


def parsed(answer: Answer) -> tuple[str, Any]:
    """Return the kind of body and its JSON; of a stream that of the first frame with data, with `id` and `event`."""
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if not answer.body:
        return "empty", None
    if kind == "text/event-stream":
        for frame in answer.body.decode().split("\n\n"):
            fields = dict(line.split(":", 1) for line in frame.splitlines() if line and not line.startswith(":"))
            if "data" in fields:
                data = json.loads(fields["data"])
                return "events", {"id": fields.get("id", "").strip(), "event": fields["event"].strip(), "data": data}
        return "events", None
    if kind != "application/json":
        return "text", None
    value = json.loads(answer.body)
    return ("list" if type(value) is list else "object"), value


def facets(exchange: Exchange, answer: Answer) -> Facets:
    """Return what of the answer is compared in this exchange."""
    kind, value = parsed(answer)
    found: Facets = {"status": answer.status, "body": kind}
    if kind == exchange.answer and exchange.members is not None:
        inner = at(value, exchange.into)
        for name in inner if type(inner) is dict else ():
            found[f"member {exchange.into} {name}".replace("  ", " ")] = THERE
    if kind == exchange.answer:
        for pointer, wanted in exchange.values.items():
            there = at(value, pointer)
            fits = isinstance(wanted, re.Pattern) and wanted.fullmatch(str(there)) is not None
            found[f"value {pointer}"] = wanted if fits else there
    for name, wanted in exchange.answer_headers.items():
        there = answer.headers.get(name)
        found[f"header {name}"] = THERE if wanted in (THERE, None) and there is not None else there
    return found


def expected(exchange: Exchange) -> Facets:
    """Return the reference's facets, as the row says them."""
    wanted: Facets = {"status": exchange.status, "body": exchange.answer}
    for name in (exchange.members or "").split():
        wanted[f"member {exchange.into} {name}".replace("  ", " ")] = THERE
    wanted |= {f"value {pointer}": value for pointer, value in exchange.values.items()}
    return wanted | {f"header {name}": value for name, value in exchange.answer_headers.items()}


def apart(exchange: Exchange, answer: Answer) -> dict[str, tuple[Any, Any]]:
    """Return the facets in which the answer is not the reference's: what the row says, and what came."""
    wanted, found = expected(exchange), facets(exchange, answer)
    if found["body"] != wanted["body"]:  # then nothing inside it can be compared
        wanted = {name: value for name, value in wanted.items() if not name.startswith(("member", "value"))}
    names = sorted(wanted.keys() | found.keys())
    return {name: (wanted.get(name), found.get(name)) for name in names if wanted.get(name) != found.get(name)}


def filled(exchange: Exchange, kept: Mapping[str, str]) -> Exchange:
    """Return the exchange with what was kept in its places."""

    def fill(text: str) -> str:
        for name, value in kept.items():
            text = text.replace(f"${name}", value)
        return text

    return replace(
        exchange,
        send=fill(exchange.send),
        raw=exchange.raw if exchange.body is None else fill(json.dumps(exchange.body)).encode(),
        headers={name: fill(value) for name, value in exchange.headers.items()},
        values={name: fill(value) if type(value) is str else value for name, value in exchange.values.items()},
    )


def keep(exchange: Exchange, answer: Answer, kept: dict[str, str]) -> None:
    """Keep what later exchanges need."""
    _, value = parsed(answer)
    for name, pointers in exchange.keep.items():
        kept[name] = next((str(one) for pointer in pointers if (one := at(value, pointer)) is not None), "")
