"""A store of its own for each test, and short forms for mutations."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from feltdb_engine import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store with small segments."""
    with Store.open(tmp_path / "store", segment_bytes=1 << 20) as opened:
        yield opened


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where the system has one: for tests that open thousands of times."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="feltdb-", dir=memory if memory.is_dir() else tmp_path))
    yield path
    shutil.rmtree(path)
