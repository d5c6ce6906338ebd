"""Every limit of this room, with its unit and its reason."""

# A definition
MAX_ID_CHARS = 128  # trigger ids travel in idempotency keys, URLs and log lines
MAX_TEXT_CHARS = 200  # capability, application, environment, revision, subject id, author: as in the work it becomes
MAX_COLLECTION_CHARS = 128  # as in the engine
MAX_KEY_CHARS = 512  # a record's key: collection, colon, id
MAX_INSTANCE_CHARS = 64  # the engine's store and timeline ids
MAX_CURSOR_CHARS = 128  # `start_from`: now, beginning, or a cursor's text
MAX_REASON_CHARS = 1_000  # kept of a reason or of a refusal's message
MAX_CONNECTION_SCOPES = 64  # copied into every workload
MAX_CAPABILITIES = 64  # copied into every workload, compared in every claim
MAX_DELAY_MS = 366 * 24 * 3600 * 1000  # a year: further away is a schedule, not a delay
MAX_LAG_OPERATIONS_DEFAULT = 1_000_000  # how far retention waits for a trigger that does not keep up
MAX_LAG_OPERATIONS = 1_000_000_000
MAX_TRIGGERS_PER_NAMESPACE = 10_000  # one pass reads them all
MAX_OPEN_REPLAYS = 8  # of one trigger: they are worked one after the other
MAX_DEPTH = 16  # changes made by work made by changes ...: beyond, a loop is certain

# A predicate
MAX_PREDICATE_DEPTH = 16  # nodes from the root; evaluation recurses
MAX_PREDICATE_CLAUSES = 100  # tested for each change that reaches the trigger
MAX_FIELD_CHARS = 512  # a dotted path
MAX_IN_VALUES = 1_000  # members of an `in` list
MAX_FORM_JSON_CHARS = 2**20  # of a member shown in the console's form: never cut, what is shown is sent back

# A dry run
DRY_RUN_OPERATIONS = 100_000  # read by one dry run: a second or two
DRY_RUN_S = 5.0  # ... or until then; the next one goes on from there
DRY_RUN_PAGE_S = 0.15  # ... of a page of the console, which is there within 300 ms
DRY_RUN_SLICE = 100  # changes matched between two looks at the clock
DRY_RUN_SAMPLES = 10  # changes shown of each kind, unless told otherwise
DRY_RUN_MAX_SAMPLES = 100

# A pass
SCAN_OPERATIONS = 1_000  # operations read at once; a larger single transaction is read whole
BATCH_ROWS = 100  # workloads in one SQL transaction: SQLite has one writer and the API waits behind us
BATCH_BYTES = 8 * 1024 * 1024  # of their inputs: a hundred large records would hold the database for too long
YIELD_S = 0.002  # between batches, so that a waiting API write gets the turn
QUIET_FLUSH_S = 1.0  # cursors that only passed changes by are stored this often: no transaction for each such change
QUIET_FLUSH_OPERATIONS = 10_000  # ... or once they are this far ahead: a restart looks at no more than these again
MARK_MS = 1_000  # what was seen is kept for comparison this often ...
MARK_OPERATIONS = 500  # ... or after so many operations: what is between two marks may be evaluated again
MARKS_DENSE = 128  # of the newest marks, and of each doubling of age: a thousand tell of years
PIN_RENEW_MS = 10_000  # pins in the store are looked at this often: each renewal is a frame of its log
PIN_MS = 7 * 24 * 3600 * 1000  # ... and hold history for so long when no evaluator renews them: a week to repair things
STALE_STEPS = 50  # steps overtaken by others in a row before an evaluation by hand gives up

# The evaluator's loop
LEASE_MS = 5_000  # one evaluator works a namespace at a time; a killed one is replaced after this
IDLE_WAIT_S = 1.0  # longest sleep: new triggers and namespaces are noticed then
WAIT_SLICE_S = 0.05  # between looks at the heads of several namespaces, and at whether to stop
STEPS_PER_TURN = 20  # steps of one namespace before the next has its turn
BACKOFF_FIRST_S = 0.5  # after a storage failure
BACKOFF_LAST_S = 30.0

AUTHORITY_LOOK_S = 5.0
"""Seconds after which an evaluator with nothing to do asks again whether its triggers' authority stands."""
