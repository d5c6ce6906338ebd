"""What this room's tests share: no refusals counted in another test."""

from collections.abc import Iterator

import pytest

from apps.keys.audit import refusals


@pytest.fixture(autouse=True)
def _fresh_counts() -> Iterator[None]:
    """Each test counts refusals afresh; nothing of it is written in the next."""
    refusals.unknown_callers.rest()
    refusals.known_callers.rest()
    yield
    refusals.unknown_callers.rest()
    refusals.known_callers.rest()
