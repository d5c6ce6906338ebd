"""JSON out: compact UTF-8, numbers exact."""

from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import BaseRenderer

from apps.http import strict_json


class StrictJSONRenderer(BaseRenderer):
    """Renders with `strict_json.dumps`; nothing (None with 204) renders to no bytes."""

    media_type = "application/json"
    format = "json"
    charset = None
    render_style = "binary"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the bytes of `data`."""
        return b"" if data is None else strict_json.dumps(data)
