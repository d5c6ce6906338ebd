"""Every limit of the audit trail, with its unit and reason."""

MAX_ACTION_CHARS = 64
"""Characters of an action's name, such as `key.revoked`."""

MAX_TARGET_CHARS = 512
"""Characters of a target; longer paths are cut."""

MAX_REASON_CHARS = 512
"""Characters of a reason; longer texts are cut."""

MAX_SUBJECT_CHARS = 256
"""Characters of a subject's id, as grants have it."""

MAX_ADDRESS_CHARS = 64
"""Characters of a network address, the longest IPv6 form included."""

MAX_REQUEST_ID_CHARS = 128
"""Characters of a request id, as the HTTP room takes them over."""

MAX_ADDRESSES_A_MINUTE = 50
"""Addresses that one process tells apart in one minute; refusals from further ones are counted together."""

FULL_ROWS_A_MINUTE = 100
"""Refusals of one key in one minute that one process records one by one; further ones are counted and sampled."""

MAX_KEYS_A_MINUTE = 1_000
"""Keys whose refusals one process counts apart in one minute; beyond, they are counted together."""

DEFAULT_PAGE = 100
MAX_PAGE = 1000
"""Events of one page."""

PRUNE_ROWS = 100
"""Rows one pruning transaction removes, so that nobody waits for it."""

MIN_KEPT_S = 86_400
"""Seconds that every event is kept whatever is asked: nobody erases what they just did."""
