"""What the generator of requests has to be told: how lines of JSON are sent. For `schemathesis`, not pytest."""

import json
from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx: Any, value: Any) -> bytes:
    """Return the lines: text goes as it is, anything else as one line of JSON."""
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass")
