"""Every limit of the workloads room, with its unit and reason."""

MAX_NAME_CHARS = 200
"""Characters of an application, definition, revision, environment, worker or capability name."""

MAX_TEXT_CHARS = 512
"""Characters of an idempotency key, a trigger's provenance text, a session id, a result id."""

MAX_REASON_CHARS = 256
"""Characters kept of the reason an operator gives; the rest is cut."""

MAX_DECISION_REASON_CHARS = 512
"""Characters kept of the reason of an approval or rejection; the rest is cut."""

MAX_APPROVERS = 100
"""Subjects that one approval policy may list."""

MAX_ERROR_CHARS = 4_096
"""Characters kept of a failure's error text; the rest is cut, so that a traceback cannot grow a row without end."""

MAX_FAILURE_CHARS = MAX_ERROR_CHARS + MAX_NAME_CHARS + 2
"""Characters of a failure as a row shows it: kind, colon, error."""

MAX_INPUT_BYTES = 1024 * 1024
MAX_OUTPUT_BYTES = 1024 * 1024
MAX_CHECKPOINT_BYTES = 1024 * 1024
"""Bytes of compact UTF-8 JSON. Larger data belongs into records, with its id in the input or output."""

MAX_CHECKPOINTS = 10
"""Checkpoints kept of one workload, the newest: each holds all that its successor needs."""

MAX_SECRET_REFERENCES = 100
"""Names of secrets that one context may ask about."""

MAX_STEP_CHARS = 128
"""Characters of the name of a step that a program commits."""

MAX_SNAPSHOT_BYTES = 64 * 1024
"""Bytes of an authorization snapshot as compact JSON."""

MAX_CAPABILITIES = 100
"""Names in a capability snapshot, in connection scopes, in `retry_on`."""

MAX_WORKER_CAPABILITIES = 1_000
"""Names a worker may say it holds."""

MAX_WORKER_CONCURRENCY = 10_000
"""Claims that one registered worker may say it can hold at once."""

MAX_SCHEDULE_ID_CHARS = 128
"""Characters of a schedule's id: it is part of its work's idempotency keys."""

MAX_EXPRESSION_CHARS = 200
"""Characters of a cron expression."""

UPCOMING = 5
"""Due times to come that are shown of a schedule."""

MAX_DEPENDENCIES = 100
"""Workloads that one workload may wait for."""

MAX_ARTIFACTS = 100
"""References that one result may carry."""

MIN_PRIORITY = -(2**31)
MAX_PRIORITY = 2**31 - 1
"""A signed 32-bit integer; higher goes first."""

MAX_BATCH = 100
"""Rows of one claim, admission or sweep transaction: SQLite has one writer, and nobody may hold it long."""

SWEEP_BATCH_MS = 5
"""Milliseconds after which a sweep's transaction ends, however many rows are left for the next one."""

MIN_LEASE_MS = 1_000
MAX_LEASE_MS = 3_600_000
DEFAULT_LEASE_MS = 30_000
"""Milliseconds of a lease: shorter ones are lost to a slow network, longer ones hide a dead worker for too long."""

MAX_WAIT_MS = 30_000
"""Milliseconds a waiting claim is held open."""

MAX_WAITING_CLAIMS = 4
"""Claims held open at once in one server process: each holds a thread. Beyond, a claim is answered at once."""

WAITING_LOOK_S = 1.0
"""Seconds after which a waiting claim looks by itself: work whose time comes, and other machines, ring no bell."""

MAX_ATTEMPTS = 1_000
"""Attempts of one retry policy."""

MAX_DELAY_MS = 7 * 24 * 3_600_000
"""Milliseconds of a back-off's first delay or cap."""

MAX_RETRY_AFTER_MS = 24 * 3_600_000
"""Milliseconds that a failure may ask to wait before the next attempt, beyond what the back-off says."""

MAX_URL_CHARS = 2_048
"""Characters of a webhook's URL."""

MAX_DEADLINE_MS = 366 * 24 * 3_600_000
"""Milliseconds of a deadline or of how far ahead `not_before_at_ms` may lie."""

MAX_HANDBACKS = 100
"""Times work may be handed back by a draining worker without using an attempt, since it was last armed."""

MAX_OPERATOR_RETRIES = 100
"""Times an operator may arm the same workload again; beyond, it should be created anew."""

DEFAULT_GRACE_MS = 30_000
MAX_GRACE_MS = 3_600_000
"""Milliseconds a worker has to confirm a cancellation before the work is cancelled without it."""

MAX_CAS_TRIES = 5
"""Times a transition is decided anew because another writer moved the row first."""

MAX_PAGE = 1_000
DEFAULT_PAGE = 100
"""Rows of one page of a list."""

MAX_HISTORY = 1_000
"""Events, attempts or checkpoints one history answer carries, newest kept."""
MAX_HOLD_CHARS = 1_000  # why the claims of a namespace are stopped

MAX_BULK = 50_000
"""Workloads of one bulk action: choosing them takes about a second; for more, the action is started again."""

MAX_BULK_LOOKED_AT = 200_000
"""Workloads looked at for one bulk action: a filter that few match reads no further."""

BULK_ROWS = 500
"""Rows of one transaction while a bulk action is prepared: SQLite has one writer."""

BULK_STEP = 20
"""Workloads between two looks at whether the person still may, and whether the action was stopped."""

BULK_DRAFT_MS = 24 * 3_600_000
BULK_KEPT_MS = 90 * 24 * 3_600_000
"""Milliseconds that a bulk action is kept: one that nobody started, and one that was."""

MAX_REFUSED_WORDS = 50
"""Kinds of refused words kept of one workload: a worker that goes on and on makes no more rows."""
