"""Every limit of the engine, with its unit and its reason. Not here: settings a caller may choose (see `store.py`)."""

from typing import Final

# Names. 128 + 1 + 256 bytes fit LMDB's 511-byte keys with room for an index prefix.
COLLECTION_MAX_CHARS: Final = 128
ID_MAX_BYTES: Final = 256
NAMES_REMEMBERED: Final = 4096  # collections a process need not check again
TRANSACTION_ID_MAX_BYTES: Final = 128
ACTOR_MAX_BYTES: Final = 4096

# Values. Deeper nesting than this serves attacks on parsers, not applications.
VALUE_MAX_BYTES: Final = 1 << 20
VALUE_MAX_DEPTH: Final = 64

# Transactions. One is one frame, written and checksummed as a whole.
TRANSACTION_MAX_MUTATIONS: Final = 10_000
TRANSACTION_MAX_PRECONDITIONS: Final = 10_000
TRANSACTION_MAX_BYTES: Final = 16 << 20

# The log. A frame may take a quarter of a segment, so that rotation wastes little.
SEGMENT_BYTES: Final = 64 << 20
SEGMENT_MIN_BYTES: Final = 64 << 10
SEGMENT_MAX_BYTES: Final = 1 << 30
PREPARE_STEP_BYTES: Final = 1 << 20  # zero-filling and forcing 1 MiB takes about a millisecond
PREPARE_AHEAD_BYTES: Final = 1 << 19
READ_CHUNK_MIN_BYTES: Final = 1 << 14  # most readers want the last few frames
READ_CHUNK_MAX_BYTES: Final = 1 << 18

# Pins. Every compaction reads all of them in the writer's turn.
PINS_MAX: Final = 1000
PIN_NAME_MAX_CHARS: Final = 128

# Snapshots and compaction. Each block is read in a read transaction of its own, so that none lives long.
SNAPSHOTS_KEPT: Final = 2  # the newest, and one to fall back to where the log still reaches it
SNAPSHOT_BLOCK_BYTES: Final = 1 << 18
SNAPSHOT_BLOCK_MAX_BYTES: Final = 1 << 22  # a block of one entry of the greatest size, with room
SNAPSHOT_FORCE_BYTES: Final = 1 << 21  # forced in small steps: a commit beside it waits for the disk to take one
COMPACTION_PAUSE_S: Final = 0.0005  # after each block, so that threads of the same process get their share
COMPACTION_FRAME_BYTES: Final = 8192  # of version floors; half of what the smallest segment takes
SWEEP_BATCH_ENTRIES: Final = 500  # removed in one turn: about 2 ms
IDS_BUCKETS: Final = 4096  # how finely the age of transaction ids is told apart
KEEP_WAIT_S: Final = 2.0  # for a backup to let go of what compaction would remove
REWRITE_MIN_BYTES: Final = 16 << 20  # a smaller view is not worth it
REWRITE_FREE_SHARE: Final = 0.5

# The feed's index names a frame about every so many bytes; a reader skips at most that much.
FEED_INDEX_STRIDE_BYTES: Final = 1 << 14
CHANGES_MAX_OPERATIONS: Final = 10_000
CHANGES_MAX_BYTES: Final = 32 << 20

# A compaction waits this long for previews of one to end; for another compaction no longer.
PREVIEW_WAIT_S: Final = 1.0

# Reading.
PAGE_MAX_RECORDS: Final = 1000
PAGE_MAX_BYTES: Final = 32 << 20  # a page ends with the chunk that goes beyond
READ_CHUNK_RECORDS: Final = 32  # read and decoded at once; of the largest values that is 32 MiB
QUERY_MAX_RECORDS: Final = 1000
GET_MANY_MAX_KEYS: Final = 10_000
SCAN_BUDGET_RECORDS: Final = 200_000
READ_MAX_S: Final = 5.0  # a read transaction keeps its pages from being used again
FIELD_MAX_CHARS: Final = 1024
SELECT_MAX_FIELDS: Final = 100
WHERE_MAX_TERMS: Final = 100
WHERE_MAX_DEPTH: Final = 16
WHERE_IN_MAX_VALUES: Final = 1000
ORDER_BY_MAX_FIELDS: Final = 8
CURSOR_MAX_CHARS: Final = 16_384

# Read bases. A fence is looked at again with every commit that carries it.
BASIS_MAX_RECORDS: Final = 1000
BASIS_MAX_PREDICATES: Final = 16
BASIS_MAX_CHARS: Final = 1 << 17
FENCES_MAX: Final = 16
FENCE_WALK_MAX_BYTES: Final = 1 << 20  # of the log, in the turn: a few milliseconds

# Earlier revisions: what was changed since is held in memory, about 200 bytes a record.
AS_OF_MAX_OPERATIONS: Final = 250_000
AS_OF_MAX_BYTES: Final = 4 << 30  # of the log, to be read
AS_OF_INSIDE_OPERATIONS: Final = 1000  # of the log walked inside the read transaction that answers

# Declared indexes. 4 bytes of number, 251 of components and 256 of id are LMDB's 511.
INDEX_MAX_PER_COLLECTION: Final = 16
INDEX_MAX_PER_STORE: Final = 64  # every commit reads all definitions
INDEX_MAX_FIELDS: Final = 4
INDEX_NAME_MAX_CHARS: Final = 128
INDEX_TEXT_BYTES: Final = 96
INDEX_COMPONENTS_BYTES: Final = 251
INDEX_BATCH_RECORDS: Final = 1000  # of a build: about 5 ms of the writer's turn
INDEX_MAX_RANGES: Final = 1000
INDEX_SORT_MAX_IDS: Final = 10_000  # where more would have to be sorted by id, reading in key order finds enough sooner

# Contracts. A change of a contract is one frame; checks may run in the turn.
CONTRACT_MAX_BYTES: Final = 256 << 10
CONTRACT_MAX_COLLECTIONS: Final = 64
CONTRACT_MAX_INDEXES: Final = 16  # unique and references of a collection
CONTRACT_SAMPLES: Final = 10  # of breaches of one rule, in a report
SCHEMA_MAX_BYTES: Final = 64 << 10
SCHEMA_MAX_DEPTH: Final = 32
SCHEMA_MAX_BREACHES: Final = 20  # named of one value
SCHEMA_MAX_STEPS: Final = 50_000  # keywords applied to a value: tenths of a second at worst
PATTERN_MAX_MEMORY_BYTES: Final = 1 << 20

# Lines of JSON, out and in.
EXPORT_CHUNK_BYTES: Final = 1 << 18
IMPORT_LINE_MAX_BYTES: Final = 8 << 20  # a value of 1 MiB with every character escaped
IMPORT_BATCH_LINES: Final = 1000
IMPORT_BATCH_BYTES: Final = 4 << 20
IMPORT_ID_MAX_BYTES: Final = 100  # with a line number after it, it is a transaction id
IMPORT_BAD_ROWS_TOLD: Final = 100

SEARCH_TEXT_MAX_CHARS: Final = 512

# The view. Address space, not disk; never changed while open.
VIEW_MAP_BYTES: Final = 1 << 40
VIEW_MAX_READERS: Final = 4096
VIEW_MAX_DATABASES: Final = 1024
REBUILD_BATCH_BYTES: Final = 16 << 20
READER_CHECK_INTERVAL_S: Final = 60.0

# Waiting.
FORCE_PATIENCE_S: Final = 0.020  # then a waiter forces for itself
TURN_STARVING_S: Final = 0.010  # then nobody who came later may overtake
TURN_STARVING_STALE_S: Final = 1.0  # a stopped process no longer holds others back
OPEN_WAIT_S: Final = 10.0
TURN_WAIT_S: Final = 30.0  # when the caller gives no deadline
FEED_POLL_MIN_S: Final = 0.001
FEED_POLL_MAX_S: Final = 0.025

# Cut tails kept aside for an operator to look at.
TAILS_MAX_COUNT: Final = 8
TAILS_MAX_AGE_S: Final = 30 * 86_400
