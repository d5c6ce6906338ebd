"""Directories of every released format open for ever, and say what they said."""

import shutil
from pathlib import Path

import orjson
import pytest

from feltdb_engine import Store
from tests.engine.golden import ids, told
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
        head = expected.get("head", len(expected["feed"]))
        assert store.commit([put("items:2", {})], transaction_id="new").base_revision == head
        assert store.verify().findings == ()
        cursor = store.head()
    with Store.open(tmp_path / "s", create=False) as store:
        assert store.head() == cursor


def test_format_0_keeps_what_a_transaction_did_that_did_nothing(tmp_path: Path) -> None:
    expected = orjson.loads((HERE / "golden-0" / "expected.json").read_bytes())
    shutil.copytree(HERE / "golden-0", tmp_path / "s")
    with Store.open(tmp_path / "s", create=False) as store:
        known = store.transaction("noop")
        assert known is not None and known.versions == tuple(expected["versions"])


@pytest.mark.parametrize("newest", ["read", "damaged"])
def test_format_1_keeps_floor_snapshots_pins_ids_and_versions(tmp_path: Path, newest: str) -> None:
    expected = orjson.loads((HERE / "golden-1" / "expected.json").read_bytes())
    shutil.copytree(HERE / "golden-1", tmp_path / "s")
    snapshots = sorted((tmp_path / "s" / "snapshots").iterdir())
    assert len(snapshots) == 2 and expected["floor"] > 0
    if newest == "damaged":
        snapshots[-1].write_bytes(b"")
    with Store.open(tmp_path / "s", create=False) as store:
        health = store.health()
        assert (health.floor, health.durable_format) == (expected["floor"], 1)
        assert (health.snapshot == expected["snapshot"]) == (newest == "read")
        assert [[one.name, one.sequence, one.expires_at_ms] for one in store.pins(now_ms=0)] == expected["pins"]
        assert [name for name in ids() if store.transaction(name)] == expected["known"]
        found = store.query("items", where={"field": "n", "op": "eq", "value": 7})
        assert [one.id for one in found.records] == ["here"] and found.plan["access"] == "index"
        assert store.commit([put("items:gone", {})]).versions == (3,), "a version goes on where it was forgotten"


def test_there_is_a_golden_directory_of_each_format() -> None:
    assert [path.name for path in GOLDEN] == ["golden-0", "golden-1"]
