"""Every limit of the keys room, with its unit and reason."""

MAX_NAME_CHARS = 100
"""Characters of a key's name: one line in every list."""

MAX_WORKER_ID_CHARS = 128
"""Characters of a worker id, as the reference's rule for identifiers has it."""

MAX_LISTED = 100
"""Namespaces, or collections, that one key may list; beyond, use `*`."""

MAX_CACHED_KEYS = 10_000
"""Verified keys one process remembers (about 1 KiB each); beyond, the cache starts afresh."""

LAST_USED_STEP_S = 60
"""Seconds between two writes of a key's last use: a fact for operators, never a write per request."""

MAX_ACTOR_CHARS = 200
"""Characters of an actor's name in created_by and revoked_by."""

MAX_TOKEN_CHARS = 128
"""Characters of a bearer token that is looked at; ours have at most 87."""

DEFAULT_PAGE = 100
MAX_PAGE = 1000
"""Keys on one page of a list."""
