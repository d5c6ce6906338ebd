"""Directories of every released format open for ever, and say what they said."""

import shutil
from pathlib import Path

import orjson
import pytest

from feltdb_engine import Store
from tests.engine.golden import told
from tests.engine.kit import put

HERE = Path(__file__).parent
GOLDEN = sorted(path for path in HERE.glob("golden-*") if path.is_dir())


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name)
def test_a_golden_directory_opens_and_says_what_it_said(tmp_path: Path, golden: Path) -> None:
    expected = orjson.loads((golden / "expected.json").read_bytes())
    shutil.copytree(golden, tmp_path / "s")
    with Store.open(tmp_path / "s", create=False) as store:
        assert store.store_id == expected["store_id"]
        assert told(store) == expected["feed"]
        assert {one.name: one.records for one in store.collections()} == expected["collections"]
        assert store.transaction("noop").versions == tuple(expected["versions"])  # type: ignore[union-attr]
        assert store.commit([put("items:2", {})], transaction_id="new").base_revision == len(expected["feed"])
        cursor = store.head()
    with Store.open(tmp_path / "s", create=False) as store:
        assert store.head() == cursor


def test_there_is_a_golden_directory_of_each_format() -> None:
    assert [path.name for path in GOLDEN] == ["golden-0"]
