"""Every limit of grants, with its unit and reason."""

MAX_ID_CHARS = 128
"""Characters of a grant's, subject's, tenant's or application's id, as for every identifier of this project."""

MAX_CAPABILITIES = 64
"""Capabilities of one grant: more than twice the scopes there are."""

MAX_RESOURCES = 128
"""Resources of one grant: every collection a key may list, and the routes of work beside them."""

MAX_URI_CHARS = 512
"""Characters of a resource's address."""

MAX_NAMED = 32
"""Environments, or attributes of one kind, in one grant's constraints."""

MAX_TEXT_CHARS = 256
"""Characters of an attribute's name or value."""

MAX_DEPTH = 8
"""Delegations below the first grant: each costs every verification a query and a signature."""

MAX_LIFETIME_S = 3660 * 86_400
"""Seconds a grant may live (ten years); longer is a mistake in the units."""

IMPLICIT_STEP_S = 366 * 86_400
"""Seconds between the ends that grants issued for keys without an end may have, so that they are shared, not piled."""

MAX_CLOCK_SKEW_MS = 2_000
"""Milliseconds a grant may seem to come from the future: two hosts on one database, whole seconds in the form."""

MAX_BODY_BYTES = 256 * 1024
"""Bytes of a request's body on the grant routes: the largest grant with room around it."""

PRUNE_ROWS = 100
"""Grants that one transaction removes, and one pass: SQLite has one writer."""

DEFAULT_PAGE = 100
MAX_PAGE = 1000
"""Grants of one page."""

MAX_REMEMBERED = 10_000
"""Answers about standing grants that a process remembers: a few hundred bytes each."""
