"""Every limit of the state API, with its unit and its reason.

Not here: what a record, a transaction or a page may be at most (`feltdb_engine/limits.py` holds those).
"""

# Open stores of one process. Each holds an LMDB map, a lock file and a few descriptors.
MAX_OPEN_STORES = 256
# A store nobody asked for during this long may be closed to make room: longer than any request may live.
STORE_IDLE_S = 120

# Pages: as the contract says, the same for every list.
PAGE_DEFAULT = 100
PAGE_MAX = 1000

# Long poll: the longest wait a client may ask for, and how often a waiting request looks whether the
# process is being stopped.
WAIT_MAX_S = 30
WAIT_SLICE_S = 1.0

# Streams of the feed. A proxy closes what is silent for long, often after a minute. One key may take half of the
# streams of a process. A page in memory for each stream: few operations, since each may hold a megabyte.
KEEP_ALIVE_S = 15.0
STREAM_SLICE_S = 0.25
STREAM_PAGE = 64
STREAM_KEYS_SHARE = 2
STREAM_RETRY_MS = 1000

# Checking and activating a contract looks at every record it speaks of: one at a time in a process, this long at most.
CONTRACT_MAX_S = 600

# Export and import. Each holds a thread of its process while it runs. A batch of an import is one transaction: a row a
# record. An export's pin keeps its moment readable; it is renewed as it goes, and expires by itself after a crash.
MAX_EXPORTS = 2
MAX_IMPORTS = 2
EXPORT_PIN_S = 600
EXPORT_PIN_RENEWED_S = 60
IMPORT_BATCH_ROWS = 500
IMPORT_BATCH_BYTES = 4 * 1024 * 1024
IMPORT_LINE_BYTES = 2 * 1024 * 1024
IMPORT_ID_BYTES = 96
PROGRESS_S = 1.0
IMPORT_DRAIN_BYTES = 1024 * 1024 * 1024

# Bodies. A record is at most 1 MiB; escapes and white space may double it. A transaction as the engine's.
RECORD_BODY_BYTES = 2 * 1024 * 1024
TRANSACTION_BODY_BYTES = 16 * 1024 * 1024

# Kept by hash in the engine; long enough for any id a client composes.
TRANSACTION_ID_BYTES = 128
RESERVED_IDS = ("work:", "import:")
"""How the ids begin under which FeltDB itself commits: steps of work, batches of imports."""


# A query is a small thing: more than this is a mistake or an attack.
QUERY_CONDITIONS = 256
QUERY_ORDER_FIELDS = 16
QUERY_SELECT_FIELDS = 64

# A scan stops this long before the request's deadline, and answers with a cursor to go on from.
READ_MARGIN_S = 0.25

# Search, as the reference bounds it: it reads every record until it has found enough.
SEARCH_DEFAULT = 50
SEARCH_MAX = 500

# One request builds an index for so long at most; a longer build goes on when it is asked for again.
INDEX_BUILD_S = 5.0

# Collections one feed reader may name, and versions one If-Match may list.
FEED_COLLECTIONS = 100
ENTITY_TAGS = 32

PROGRAM_NAME_CHARS = 128
PROGRAM_STEPS = 16
PROGRAM_FIELDS = 32
PROGRAM_LIMIT_MAX = 500
PROGRAM_QUERY_CHARS = 512
"""Characters of a declared program's name, its steps, members one of them keeps, items another passes on, characters
of a text it looks for: the reference's."""
