"""The probe routes, for the tests of this room."""

from typing import Any

import pytest


@pytest.fixture
def probe(settings: Any) -> None:
    """Serve `tests/http/probe_urls.py`."""
    settings.ROOT_URLCONF = "tests.http.probe_urls"
