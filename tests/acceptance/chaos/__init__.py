"""What the chaos proof runs beside the test itself: processes with journals of their own, and the program they run.

It is a Django app only so that its `capabilities.py` is found. Start a process with
`python -m tests.acceptance.chaos.process <role> <number> <seed>`; `FELTDB_APPS=tests.acceptance.chaos` and
`CHAOS_JOURNALS` must be set.
"""
