"""Content negotiation without the negotiating: JSON in, JSON out."""

from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class JSONOnly(BaseContentNegotiation):
    """Picks the first parser and the first renderer, whatever `Accept` says."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        """Return the first parser; it judges the media type itself."""
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[Any, str]:
        """Return the first renderer and its media type."""
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)
