"""Every limit of this room, with its unit and its reason."""

# A definition
MAX_ID_CHARS = 128  # trigger ids travel in idempotency keys, URLs and log lines
MAX_TEXT_CHARS = 256  # capability, application, environment, revision, subject id, connection scope
MAX_CONNECTION_SCOPES = 64  # copied into every workload
MAX_CAPABILITIES = 64  # copied into every workload, compared in every claim
MAX_DELAY_MS = 366 * 24 * 3600 * 1000  # a year: further away is a schedule, not a delay
MAX_LAG_OPERATIONS_DEFAULT = 1_000_000  # how far retention waits for a trigger that does not keep up
MAX_LAG_OPERATIONS = 1_000_000_000
MAX_TRIGGERS_PER_NAMESPACE = 10_000  # one pass reads them all
MAX_PRIORITY = 2**31 - 1  # a 32-bit column, as in the work it becomes

# A predicate
MAX_PREDICATE_DEPTH = 16  # nodes from the root; evaluation recurses
MAX_PREDICATE_CLAUSES = 100  # tested for each change that reaches the trigger
MAX_FIELD_CHARS = 512  # a dotted path
MAX_IN_VALUES = 1_000  # members of an `in` list

# A pass
SCAN_OPERATIONS = 1_000  # operations read at once; a larger single transaction is read whole
BATCH_ROWS = 100  # workloads in one SQL transaction: SQLite has one writer and the API waits behind us
YIELD_S = 0.002  # between batches, so that a waiting API write gets the turn
PASS_BATCHES = 200  # batches of one namespace before the next namespace has its turn
BATCH_ATTEMPTS = 3  # thrown-away batches (a definition changed meanwhile) before the pass lets go
DEADLOCK_ATTEMPTS = 3  # on a database that reports serialisation failures

# The evaluator's loop
LEASE_MS = 10_000  # one evaluator works a namespace at a time; a killed one is replaced after this
IDLE_WAIT_S = 1.0  # longest sleep of a namespace without new changes: new triggers and namespaces are noticed then
BACKOFF_FIRST_S = 0.5  # after a storage failure
BACKOFF_LAST_S = 30.0
QUARANTINE_REASON_CHARS = 1_000  # of the refusal's message that is kept
