"""Forks, copies, reboots and views that are not to be trusted."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import google_crc32c
import pytest

from feltdb_engine import Store, errors
from tests.engine.kit import boot, delete, operations, put, vanish


def fill(path: Path, rows: int = 3) -> str:
    """A store with some rows, cleanly closed; gives its timeline."""
    with Store.open(path, host=boot(1)) as store:
        for number in range(rows):
            store.commit([put(f"a:{number}", {"n": number})])
        return store.instance_id


def test_a_forked_child_cannot_use_its_parents_store_but_can_open_its_own(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    store.commit([put("a:1", {})])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                store.get("a:1")
            except errors.StoreForked:
                code = 2
            with Store.open(tmp_path / "s") as own:
                own.commit([put("a:2", {})])
            code = 0 if code == 2 else 3
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert store.get("a:2") is not None
    store.commit([put("a:3", {})])
    store.close()


def test_a_child_that_outlives_its_parent_does_not_keep_the_turn(tmp_path: Path) -> None:
    """The parent forks while it holds the turn and is killed; its child sleeps on."""
    Store.open(tmp_path / "s").close()
    program = """
import os, signal, sys, time
from feltdb_engine import Mutation, Store
from tests.engine.hooks import HookedFiles
def hook(step):
    if step == "appended":
        if os.fork() == 0:
            print("forked", flush=True)
            time.sleep(60)
            os._exit(0)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
store = Store.open(sys.argv[1], files=HookedFiles(hook))
store.commit([Mutation(kind="put", collection="a", id="1", value={})])
"""
    root = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "s")], cwd=root, stdout=subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout is not None
    try:
        assert parent.stdout.readline() == b"forked\n"
        assert parent.wait(20) == -9
        with Store.open(tmp_path / "s", wait_s=5) as store:
            store.commit([put("a:2", {})])
            assert [one.key for one in operations(store)] == ["a:1", "a:2"]
    finally:
        os.killpg(parent.pid, 9)
        parent.stdout.close()


def test_a_clean_view_is_kept_over_a_reboot(tmp_path: Path) -> None:
    instance = fill(tmp_path / "s")
    before = os.stat(tmp_path / "s" / "view" / "data.mdb").st_ino
    made = os.stat(tmp_path / "s" / "view" / "data.mdb").st_ctime_ns
    with Store.open(tmp_path / "s", host=boot(2)) as store:
        assert store.instance_id == instance
        assert [store.get(f"a:{number}") is not None for number in range(3)] == [True] * 3
    after = os.stat(tmp_path / "s" / "view" / "data.mdb")
    assert after.st_ino == before and after.st_ctime_ns >= made


def test_a_view_that_was_opened_and_not_closed_is_made_again_even_where_it_stands_still(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    vanish(Store.open(tmp_path / "s", host=boot(1)))
    data = tmp_path / "s" / "view" / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b'{"n":1}', b'{"n":7}'))  # a page of another moment
    with Store.open(tmp_path / "s", host=boot(2)) as again:
        assert [again.get(f"a:{number}").value for number in range(3)] == [{"n": 0}, {"n": 1}, {"n": 2}]  # type: ignore[union-attr]


def test_a_view_that_was_not_closed_is_made_again_after_a_reboot(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s", host=boot(1))
    store.commit([put("a:1", {"n": 1}), put("b:1", {})], transaction_id="t")
    store.commit([delete("b:1")])
    vanish(store)
    spoil(tmp_path / "s" / "view" / "data.mdb")
    with Store.open(tmp_path / "s", host=boot(2)) as again:
        assert again.get("a:1").value == {"n": 1}  # type: ignore[union-attr]
        assert again.get("b:1") is None
        assert again.commit([put("b:1", {})]).versions == (3,)
        assert again.transaction("t") is not None


def spoil(path: Path) -> None:
    """What an unforced file may look like after a power cut."""
    data = path.read_bytes()
    path.write_bytes(data[:8192] + os.urandom(len(data) - 8192))


@pytest.mark.parametrize("what", ["view", "data.mdb", "trust", "positions"])
def test_what_can_be_made_again_can_be_deleted(tmp_path: Path, what: str) -> None:
    fill(tmp_path / "s")
    if what == "view":
        shutil.rmtree(tmp_path / "s" / "view")
    elif what == "data.mdb":
        (tmp_path / "s" / "view" / "data.mdb").unlink()
    else:
        (tmp_path / "s" / what).unlink()
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        assert [one.key for one in operations(store)] == ["a:0", "a:1", "a:2"]
        assert store.get("a:1") is not None
        store.commit([put("a:9", {})])


def test_the_view_of_another_store_is_not_believed(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    with Store.open(tmp_path / "other", host=boot(1)) as other:
        for number in range(3):
            other.commit([put(f"a:{number}", {"other": number})])
    for name in ("data.mdb", "lock.mdb"):
        shutil.copyfile(tmp_path / "other" / "view" / name, tmp_path / "s" / "view" / name)
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        assert store.get("a:1").value == {"n": 1}  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [1, 2])
def test_a_copied_directory_goes_on_on_a_timeline_of_its_own(tmp_path: Path, number: int) -> None:
    """On the same boot and on another; also when the copy was taken of a store that is still open."""
    instance = fill(tmp_path / "s")
    original = Store.open(tmp_path / "s", host=boot(number))
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    original.commit([put("a:3", {"of": "original"}), put("a:4", {})])
    cursor = original.head()
    with Store.open(tmp_path / "copy", host=boot(number)) as copy:
        assert copy.store_id == original.store_id
        assert copy.instance_id != instance == original.instance_id
        copy.commit([put("a:3", {"of": "copy"})])
        told = list(operations(copy))
        assert [one.sequence for one in told] == [1, 2, 3, 4]
        assert [one.instance_id for one in told] == [instance] * 3 + [copy.instance_id]
        again = copy.changes(cursor)
        assert (again.rewound_from, [one.sequence for one in again.operations]) == (5, [4])
        assert again.cursor.instance_id == copy.instance_id
        with pytest.raises(errors.CursorUnknown):
            original.changes(copy.head())
        manifest = (tmp_path / "copy" / "manifest.json").read_text()
        assert f'"instance_id":"{copy.instance_id}"' in manifest and f'{{"instance_id":"{instance}"' in manifest
    assert original.get("a:3").value == {"of": "original"}  # type: ignore[union-attr]
    original.close()
    with Store.open(tmp_path / "copy", host=boot(3)) as copy:
        assert copy.changes(None).cursor.instance_id == copy.instance_id
        assert len({one.instance_id for one in operations(copy)}) == 2, "opening again begins no third timeline"
    with Store.open(tmp_path / "s", host=boot(3)) as store:
        assert store.instance_id == instance


def test_another_machine_means_another_timeline(tmp_path: Path) -> None:
    instance = fill(tmp_path / "s")
    with Store.open(tmp_path / "s", host=boot(1, "another")) as store:
        assert store.instance_id != instance
        assert store.get("a:1") is not None


def test_reading_a_copy_begins_no_timeline_but_its_first_writer_does(tmp_path: Path) -> None:
    instance = fill(tmp_path / "s")
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    with Store.open(tmp_path / "copy", host=boot(1), read_only=True) as reader:
        assert reader.instance_id == instance
    with Store.open(tmp_path / "copy", host=boot(1)) as writer:
        assert writer.instance_id != instance


def test_a_moved_directory_is_no_copy(tmp_path: Path) -> None:
    instance = fill(tmp_path / "s")
    (tmp_path / "s").rename(tmp_path / "moved")
    with Store.open(tmp_path / "moved", host=boot(1)) as store:
        assert store.instance_id == instance


def test_threads_of_one_process_share_the_turn(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:

        def write(name: str) -> None:
            for number in range(50):
                store.commit([put(f"{name}:{number}", {}), put("shared:1", {"by": name})])

        threads = [threading.Thread(target=write, args=(f"w{one}",)) for one in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.get("shared:1").version == 200  # type: ignore[union-attr]
        assert [one.sequence for one in operations(store)] == list(range(1, 401))


def test_a_file_system_shared_between_hosts_is_refused_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feltdb_engine.host.file_system", lambda _path: "nfs4")
    with pytest.raises(errors.FormatUnsupported, match="nfs4"):
        Store.open(tmp_path / "s")


def test_an_unknown_format_is_refused_untouched(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    path = tmp_path / "s" / "manifest.json"
    line = path.read_bytes().splitlines()[0].replace(b'"format":0', b'"format":99')
    path.write_bytes(b"%s\n%08x\n" % (line, google_crc32c.value(line)))
    with pytest.raises(errors.FormatUnsupported):
        Store.open(tmp_path / "s")


def test_a_timeline_begun_on_request_leaves_the_old_one_at_the_head(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Store.open(path, host=boot(1)) as store:
        store.commit([put("a:1", {})])
        old = store.head()
        began = store.begin_timeline()
        assert (began.sequence, began.instance_id != old.instance_id) == (1, True)
        store.commit([put("a:2", {})])
        after = store.changes(old)
        assert ([each.instance_id for each in after.operations], after.rewound_from) == ([began.instance_id], None)
    with Store.open(path, host=boot(1)) as store:
        assert store.head() == type(old)(instance_id=began.instance_id, sequence=2)
        assert [each.instance_id for each in operations(store)] == [old.instance_id, began.instance_id]
        assert store.verify().good
