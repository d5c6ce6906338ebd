"""The audit trail: who did what to what, with which outcome, in a table that is only ever added to.

    models.py     the table and its append-only manager
    masking.py    what never goes into it, and how text is made safe   pure
    services.py   `record`: one row, in the caller's transaction
    refusals.py   every refusal of authority on its way out; floods counted and sampled
    reading.py    pages by filter and cursor, the NDJSON export
    retention.py  the one place that removes rows, by age

Not here: the log of requests (gunicorn's), nor provenance of records (the engine keeps an actor with each operation).
"""
