"""Template filters about triggers: thin over `apps.triggers.services`."""

from collections.abc import Mapping
from typing import Any

from django import template

from apps.triggers.models import Trigger, TriggerReplay
from apps.triggers.services import lag as operations_behind
from feltdb_engine.model import Cursor

register = template.Library()


@register.filter
def lag(trigger: Trigger, head: Cursor | None) -> str:
    """Say how far a trigger is behind the head of the feed."""
    behind = operations_behind(trigger, head)
    return "" if behind is None else "up to date" if behind == 0 else f"{behind:,} behind"


@register.filter
def replay_length(row: TriggerReplay) -> int:
    """Return how many places of the feed a replay walks through."""
    return row.to_sequence - row.from_sequence


@register.filter
def replay_done(row: TriggerReplay) -> int:
    """Return how many of them it has walked through."""
    return row.position - row.from_sequence


@register.filter
def account(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a predicate's account (`apps.triggers.account`) as lines: depth, asked, found, verdict."""
    lines: list[dict[str, Any]] = []

    def walk(node: Mapping[str, Any], depth: int) -> None:
        line: dict[str, Any] = {"depth": range(depth), "says": node["says"], "holds": node["says"] == "matched"}
        lines.append(line)
        for name in ("all", "any", "not", "was"):
            if name in node:
                line["asks"] = {"all": "all of", "any": "any of", "not": "not", "was": "before this change"}[name]
                inner = node[name]
                for each in inner if isinstance(inner, list) else [inner]:
                    walk(each, depth + 1)
                return
        if "changed" in node:
            line |= {"asks": f"{node['changed']} changed", "found": [node[k] for k in ("before", "after") if k in node]}
        else:
            line |= {"clause": node.get("clause"), "found": [node["found"]] if "found" in node else []}

    walk(node, 0)
    return lines
