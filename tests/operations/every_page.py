"""Every page of the console by its URL map, so that a new one is tried by every test that walks them.

A page that needs something to show has its sample in `Samples`; one without fails the walk, by its name.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.urls import URLPattern, URLResolver, reverse

MODEL_PAGES = {"changelist": False, "add": False, "change": True, "delete": True, "history": True}
"""Django's own pages of a model, and whether they are about one row."""

NAMED_BY = {"Workload": "workload_id", "BulkOrder": "bulk_id"}
"""What names a row in the address of its page, where that is not its key."""

NOT_PAGES = {"jsi18n", "autocomplete", "view_on_site", "logout"}
"""Addresses that show nothing to a person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """What the pages are shown with: a row of each model, and for our own pages their arguments and queries."""

    rows: dict[Any, Any]
    own: dict[str, tuple[list[Any], list[dict[str, Any]]]]

    def addresses(self) -> dict[str, list[str]]:
        """Return the addresses of every page by its name. Raises AssertionError for one without a sample."""
        found = {}
        for name in names():
            if name not in NOT_PAGES:
                found[name] = self._of(name)
        return found

    def _of(self, name: str) -> list[str]:
        if name in self.own:
            arguments, queries = self.own[name]
            path = reverse(f"admin:{name}", args=arguments)
            return [f"{path}?{urlencode(query)}" if query else path for query in queries]
        for model, row in self.rows.items():
            base = f"{model._meta.app_label}_{model._meta.model_name}"
            if name.startswith(f"{base}_"):
                page = name.removeprefix(f"{base}_")
                if page in MODEL_PAGES:
                    pk = getattr(row, NAMED_BY.get(model.__name__, "pk"))
                    return [reverse(f"admin:{name}", args=[pk] if MODEL_PAGES[page] else [])]
        raise AssertionError(f"the page {name} has no sample: give it one in tests/operations")


def names() -> list[str]:
    """Return the names of all addresses of the console."""
    return sorted({pattern.name for pattern in _walk(admin.site.get_urls()) if pattern.name})


def _walk(patterns: list[URLPattern | URLResolver]) -> list[URLPattern]:
    found: list[URLPattern] = []
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            found += _walk(pattern.url_patterns)
        else:
            found.append(pattern)
    return found
