"""Every limit of the HTTP room, with its unit and reason."""

MAX_JSON_DEPTH = 64
"""Levels of arrays and objects. The engine's own limit; deeper documents are mistakes or attacks."""

MAX_BODY_BYTES = 2 * 1024 * 1024
"""Bytes of a request body where the view names no other limit: a record of 1 MiB with room for its envelope."""

MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**64 - 1
"""What a JSON integer may be: exactly what 64 bits hold, signed or unsigned. Beyond, readers would round it."""

MAX_REQUEST_ID_CHARS = 128
"""Characters of an `X-Request-ID` taken over from the caller; it goes into every log line."""
