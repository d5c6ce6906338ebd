"""Template tags of the console: thin over `apps.http.pages.display`. `now_ms` comes with the page's context."""

from typing import Any
from urllib.parse import urlencode

import orjson
from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from apps.http.pages import display

register = template.Library()

register.filter("seen", lambda value: display.seen(str(value)))
register.filter("instant", display.instant)
register.filter("clock", display.clock)
register.filter("iso", display.iso_instant)
register.filter("duration", display.duration)
register.filter("capped", display.capped)
register.filter("words", display.words)
register.filter("listed", lambda names: display.seen(", ".join(map(str, names))))
register.filter("json_preview", display.json_preview)
register.filter("bytes", display.in_bytes)
register.filter("json_line", lambda value: display.seen(orjson.dumps(value).decode()))


@register.filter
def seen_markup(shown: Any) -> str:
    """Show what hides or reorders text, also within markup that is safe already: what takes its place is letters."""
    text = display.seen(str(shown))
    return mark_safe(text) if isinstance(shown, SafeString) else text  # noqa: S308


@register.simple_tag(takes_context=True)
def ago(context: Context, ms: int | None) -> SafeString | str:
    """Show an instant as its age, the exact instant as the element's title."""
    if ms is None:
        return ""
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        display.iso_instant(ms),
        display.instant(ms),
        display.since(ms, context["now_ms"]),
    )


@register.simple_tag
def moment(ms: int | None) -> SafeString | str:
    """Show an instant exactly."""
    if ms is None:
        return ""
    return format_html('<time datetime="{}">{}</time>', display.iso_instant(ms), display.instant(ms))


@register.simple_tag(takes_context=True)
def link(context: Context, name: str, /, *arguments: Any, **parameters: Any) -> str:
    """Return the address of a page about the namespace at hand, complete: it leads there for whoever opens it.

    Parameters that are None or empty are left out.
    """
    asked = {name: value for name, value in parameters.items() if value not in (None, "")}
    namespaces = context.get("namespaces")
    if namespaces is not None and namespaces.current:
        asked.setdefault("namespace", namespaces.current)
    return f"{reverse(f'admin:{name}', args=arguments)}?{urlencode(asked)}"


@register.simple_tag
def badge(state: str) -> SafeString:
    """Show a state as a word in a coloured pill; the colour only repeats what the word says."""
    return format_html('<span class="badge badge-{}">{}</span>', str(state).lower(), display.words(state))


@register.inclusion_tag("console/json.html")
def json_value(value: Any, label: str, whole: str = "") -> dict[str, Any]:
    """Show a JSON value, indented and exact; `label` names it for those who hear the page.

    `whole` is an address that gives all of a value that is longer than a page shows.
    """
    text, cut = display.json_text(value)
    return {"text": text, "cut": cut, "label": label, "whole": whole}
