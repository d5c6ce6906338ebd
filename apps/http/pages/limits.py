"""Every limit of what the console shows, with its reason."""

COUNT_CAP = 1_000
"""Rows counted at most; beyond, a page says "1,000+", because an exact count reads every row."""

PAGE_ROWS = 50
"""Rows of one page of a list."""

JSON_CHARS = 64 * 1024
"""Characters of one JSON value shown in a page; larger ones are cut with a note."""

MAX_EXPORTS = 2
"""Files of rows (the audit, bulk actions) that one process streams at once: each holds a thread."""

EXPORT_ROWS = 500
"""Rows that such a file reads at a time: no read transaction lives longer than one such page."""
