"""What this room's tests share: nothing counted in another test."""

import threading
from collections.abc import Iterator

import pytest

from apps.http.pages import exporting
from apps.http.pages.limits import MAX_EXPORTS
from apps.keys.audit import refusals


@pytest.fixture(autouse=True)
def _fresh_counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test counts refusals and exports afresh; nothing of it is left for the next."""
    refusals.unknown_callers.rest()
    refusals.known_callers.rest()
    # Other tests leave exports unread and unclosed, as no server does.
    monkeypatch.setattr(exporting, "places", threading.BoundedSemaphore(MAX_EXPORTS))
    yield
    refusals.unknown_callers.rest()
    refusals.known_callers.rest()
