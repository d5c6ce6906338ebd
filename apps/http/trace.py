"""The caller's place in a trace: the header `traceparent` of W3C Trace Context, carried and never made here.

    version "-" trace id (32 hex) "-" parent id (16 hex) "-" flags (2 hex)

As the standard asks, a malformed one is passed over, not refused; of a later version the first four parts are kept.
"""

import re
from collections.abc import Mapping
from typing import Any

_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")
_VERSION = "00"


MAX_CHARS = 55
"""Of what is kept."""


def parent(meta: Mapping[str, Any]) -> str | None:
    """Return the `traceparent` of a request's `META`, None where there is none or it is not one."""
    return kept(meta.get("HTTP_TRACEPARENT"))


def kept(given: str | None) -> str | None:
    """Return what is kept of a `traceparent`, None where it is none."""
    if given is None:
        return None
    found = _FORM.fullmatch(given)
    if found is None or (found[1] == _VERSION and found[5] is not None):
        return None
    return given[: found.end(4)]
