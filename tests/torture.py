"""How long torture tests go on: each takes a share of FELTDB_TORTURE_MINUTES (default 30), so that all of them end.

    @pytest.mark.torture
    @timeout(0.25)
    def test_...():
        until = time.monotonic() + seconds(0.25)

The shares given out so far are in `docs/reliability.md`.
"""

import os

import pytest

MINUTES = float(os.environ.get("FELTDB_TORTURE_MINUTES", "30"))


def seconds(share: float) -> float:
    """So much of the whole."""
    return MINUTES * 60 * share


def timeout(share: float) -> pytest.MarkDecorator:
    """The time after which such a test hangs: its share, and time to judge what it did."""
    return pytest.mark.timeout(2 * seconds(share) + 300)
