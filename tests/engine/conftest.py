"""A store of its own for each test, and short forms for mutations."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from feltdb_engine import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store with small segments."""
    with Store.open(tmp_path / "store", segment_bytes=1 << 20) as opened:
        yield opened
