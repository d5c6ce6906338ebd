"""How a predicate came to its answer: the same tree, each clause with what it found and what it says. Pure.

A node is `{"says"}` (a verdict, `matched` where it holds) with one of

    "clause": the clause, "found": what the record has there (left out where there is nothing)
    "changed": the field, "before" and "after" (each left out where there is nothing)
    "all" or "any": nodes, "not": a node, "was": a node about the record before (left out where there was none)

Not here: what a verdict is (`predicate.py` decides, here as everywhere).
"""

from collections.abc import Mapping
from typing import Any

from apps.triggers.predicate import Absent, parse, resolve, split_path


def account_of(document: Mapping[str, Any], *, record: Any, before: Any, after: Any) -> dict[str, Any]:
    """Return the account of a predicate that was read before."""
    node: dict[str, Any] = {"says": parse(document).test(record, before, after).value}
    names = set(document)
    if names in ({"all"}, {"any"}):
        (name,) = names
        node[name] = [account_of(each, record=record, before=before, after=after) for each in document[name]]
    elif names == {"not"}:
        node["not"] = account_of(document["not"], record=record, before=before, after=after)
    elif names == {"was"}:
        if not isinstance(before, Absent):
            node["was"] = account_of(document["was"], record=before, before=before, after=after)
    elif names == {"changed"}:
        path = split_path(document["changed"])
        node["changed"] = document["changed"]
        node |= _present("before", resolve(before, path)) | _present("after", resolve(after, path))
    else:
        node["clause"] = dict(document)
        node |= _present("found", resolve(record, split_path(document["field"])))
    return node


def _present(name: str, value: Any) -> dict[str, Any]:
    return {} if isinstance(value, Absent) else {name: value}
