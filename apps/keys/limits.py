"""Every limit of the keys room, with its unit and reason."""

from typing import NamedTuple

MAX_NAME_CHARS = 100
"""Characters of a key's name: one line in every list."""

MAX_WORKER_ID_CHARS = 128
"""Characters of a worker id, as the reference's rule for identifiers has it."""

MAX_LISTED = 100
"""Namespaces, or collections, that one key may list; beyond, use `*`."""

MAX_CACHED_KEYS = 10_000
"""Verified keys one process remembers (about 1 KiB each); beyond, the cache starts afresh."""

TRUST_S = 10
"""Seconds that what was read about a key, a person or a grant is trusted at most, though no service took rights away:
so long may a change made with SQL alone go unnoticed."""

LEASE_MS = 100
"""Milliseconds that a process may take the database's revocation mark for unchanged: some twenty small queries a second
at most, and what taking rights away has to wait."""

OUTLIVE_MS = LEASE_MS + LEASE_MS // 10
"""Milliseconds that taking rights away waits: two clocks' rates may differ by a tenth (kernels allow 0.05 %)."""

MAX_PEPPERS = 4
"""Peppers at once: each costs every unknown key one more digest (about 1 us)."""

LAST_USED_STEP_S = 60
"""Seconds between two writes of the last use of a key, or of one right of it: never a write per request."""

FLUSH_S = 5.0
"""Seconds between two writes of what requests have noted about keys."""

FLUSH_ROWS = 100
"""Rows of one such transaction, so that nobody waits for it."""

MAX_NOTED_USES = 50_000
"""Uses that one process remembers having noted (about 200 bytes each); beyond, it notes afresh."""

MAX_ACTOR_CHARS = 200
"""Characters of an actor's name in created_by and revoked_by."""

MAX_TOKEN_CHARS = 128
"""Characters of a bearer token that is looked at; ours have at most 87."""

DEFAULT_PAGE = 100
MAX_PAGE = 1000
"""Keys on one page of a list."""

MAX_LOOKED_AT = 2_000
"""Keys that one page looks at, whoever may see them: about 50 ms."""

MAX_ENCODED_CHARS = 256
"""Characters of a secret in Argon2's own form; the library's longest default has 97."""

MAX_SCOPE_CHARS = 64
"""Characters of a scope's name."""

MAX_GRACE_S = 90 * 86_400
"""Seconds an old secret may go on after a rotation: a quarter of a year; who needs more has not rotated."""

MAX_ARGON2_SECRETS = 32
"""Imported secrets that only Argon2 can tell, at once: an unknown token may have to be tried against each."""

HASH_DEADLINE_S = 5.0
"""Seconds that somebody waits for a memory-hard hash, its turn included."""

MAX_WAITING_HASHES = 4
"""Requests that wait for their turn at it in one process: each holds a thread."""


class Argon2Cost(NamedTuple):
    """What one Argon2 hash may cost."""

    memory_kib: int
    passes: int
    lanes: int


MAX_IMPORTED_COST = Argon2Cost(memory_kib=131_072, passes=10, lanes=8)
"""Imported hashes name their own cost; the reference's have 19,456 KiB, 2 passes, 1 lane."""

MAX_KEY_FILE_BYTES = 64 * 1024 * 1024
"""Bytes of a key file to import: about 100,000 keys."""

SESSION_MS = 15 * 60_000
"""Milliseconds a person's session lasts: short, since whoever holds its token is that person."""

FAILURE_WINDOW_MS = 5 * 60_000
"""Milliseconds in which failures to sign in are counted together, whenever they begin."""

FAILURE_STEP_MS = 30_000
"""Milliseconds of failures that are counted in one row; a failure is forgotten within one such step of its window."""

FAILURES_OF_A_PAIR = 5
"""Failures of one account from one address within a window; more is no mistyping."""

FAILURES_OF_AN_ADDRESS = 30
"""Failures from one address within a window: an office behind one address mistypes, a guesser tries names."""

FAILURES_OF_AN_ACCOUNT = 100
"""Failures of one account within a window from wherever: many addresses that guess one password together."""

MAX_USERNAME_CHARS = 150
"""Characters of a person's name, as in Django's own column."""

MAX_PASSWORD_CHARS = 4096
"""Characters of a password that is looked at, as Django's own forms have it."""

MIN_PASSPHRASE_CHARS = 16
"""Characters of a passphrase that seals secrets: whoever has the file may try for ever."""

MAX_SECRET_FILE_BYTES = 1024 * 1024
"""Bytes of one file of secrets; the largest, the ring that signs grants, has a few kilobytes."""

MAX_SEALED_BYTES = 64 * 1024 * 1024
"""Bytes of a file of sealed secrets that is read."""
