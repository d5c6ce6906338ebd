"""Cutting values to a selection of their fields: what a query gives back of each record. Not here: conditions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from feltdb_engine import limits
from feltdb_engine.errors import InvalidQuery
from feltdb_engine.where import check_field

_Tree: TypeAlias = "dict[str, _Tree | None]"


def compile_select(select: Sequence[str] | None) -> Callable[[Mapping[str, Any]], Mapping[str, Any]] | None:
    """The function that cuts a value to what lies at dotted paths, in its place; what is missing is left out.

    A path takes all below it, whatever longer ones say. None where nothing is to be cut. Raises InvalidQuery.
    """
    if select is None:
        return None
    if isinstance(select, str) or len(select) > limits.SELECT_MAX_FIELDS:
        raise InvalidQuery(f"A selection is a list of at most {limits.SELECT_MAX_FIELDS} fields.", pointer="/select")
    tree: _Tree = {}
    for place, path in enumerate(select):
        check_field(path, f"/select/{place}")
        _add(tree, path.split("."))
    return lambda value: _cut(value, tree)


def _add(tree: _Tree, steps: list[str]) -> None:
    for step in steps[:-1]:
        inner = tree.setdefault(step, {})
        if inner is None:
            return
        tree = inner
    tree[steps[-1]] = None


def _cut(value: Mapping[str, Any], tree: _Tree) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, inner in tree.items():
        if name not in value:
            continue
        member = value[name]
        if inner is None:
            kept[name] = member
        elif type(member) is dict:
            below = _cut(member, inner)
            if below:
                kept[name] = below
    return kept
