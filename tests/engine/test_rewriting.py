"""A view of which over half is free is rewritten by whoever opens the directory alone."""

from pathlib import Path

import pytest

from feltdb_engine import Store, limits
from tests.engine.kit import NOTHING, boot, delete, put


def half_free(path: Path) -> None:
    """A store whose view is mostly free pages."""
    with Store.open(path, segment_bytes=1 << 20, host=boot(1)) as store:
        for number in range(40):
            store.commit([put(f"a:{number}-{one}", {"body": "x" * 1000}) for one in range(20)])
        for number in range(39):
            store.commit([delete(f"a:{number}-{one}") for one in range(20)])
        store.compact(NOTHING, now_ms=1 << 50)
        assert store.stats().view_free_share > limits.REWRITE_FREE_SHARE


def test_a_view_over_half_free_is_rewritten_by_whoever_opens_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REWRITE_MIN_BYTES", 0)
    half_free(tmp_path / "s")
    before = (tmp_path / "s" / "view" / "data.mdb").stat().st_size
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        after = store.stats()
        assert after.view_disk_bytes < before / 2 and after.view_free_share < limits.REWRITE_FREE_SHARE
        assert store.verify().good and store.stats().records == 20
        store.commit([put("a:1", {})])
        identity = (tmp_path / "s" / "view" / "data.mdb").stat().st_ino
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        assert store.get("a:1") is not None and store.verify().good
        assert (tmp_path / "s" / "view" / "data.mdb").stat().st_ino == identity, "once is enough"


def test_where_there_is_no_room_for_a_smaller_view_the_old_one_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REWRITE_MIN_BYTES", 0)
    half_free(tmp_path / "s")
    (tmp_path / "s" / "view.new").write_text("in the way")
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        assert store.stats().view_free_share > limits.REWRITE_FREE_SHARE and store.verify().good


def test_a_small_view_is_left_alone(tmp_path: Path) -> None:
    half_free(tmp_path / "s")
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        assert store.stats().view_free_share > limits.REWRITE_FREE_SHARE
