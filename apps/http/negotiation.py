"""Content negotiation without the negotiating: JSON in, JSON out."""

from collections.abc import Sequence
from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request


class JSONOnly(BaseContentNegotiation):
    """Picks the first parser and the first renderer, whatever `Accept` says."""

    def select_parser(self, request: Request, parsers: Sequence[Any]) -> Any:
        """Return the first parser; it judges the media type itself."""
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Sequence[Any], format_suffix: str | None = None
    ) -> tuple[Any, str]:
        """Return the first renderer and its media type."""
        return renderers[0], renderers[0].media_type
