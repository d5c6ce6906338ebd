"""Side-by-side measurements: every claim of speed is a ratio from one run in which the contestants took turns.

Not tests: nothing here passes or fails. `make bench` runs them; `docs/performance.md` keeps what was seen.
"""
