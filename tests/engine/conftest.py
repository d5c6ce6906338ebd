"""A store of its own for each test, and short forms for mutations."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from feltdb_engine import Store
from tests.engine.kit import FULL, SMALL_SEGMENT, boot, put


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


@pytest.fixture
def made(tmp_path: Path) -> Store:
    """A store of several segments, operation n at n seconds."""
    store = Store.open(tmp_path / "s", segment_bytes=SMALL_SEGMENT, host=boot(1))
    for number in range(1, 31):
        store.commit([put(f"a:{number % 10}", {**FULL, "n": number})], transaction_id=f"t{number}", at_ms=number * 1000)
    return store
