"""Template filters about triggers: thin over `apps.triggers.services`."""

from django import template

from apps.triggers.models import Trigger
from apps.triggers.services import lag as operations_behind
from feltdb_engine.model import Cursor

register = template.Library()


@register.filter
def lag(trigger: Trigger, head: Cursor | None) -> str:
    """Say how far a trigger is behind the head of the feed."""
    behind = operations_behind(trigger, head)
    return "" if behind is None else "up to date" if behind == 0 else f"{behind:,} behind"
