"""Every limit of what the console shows, with its reason."""

COUNT_CAP = 1_000
"""Rows counted at most; beyond, a page says "1,000+", because an exact count reads every row."""

PAGE_ROWS = 50
"""Rows of one page of a list."""

JSON_CHARS = 64 * 1024
"""Characters of one JSON value shown in a page; larger ones are cut with a note."""
