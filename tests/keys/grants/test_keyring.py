"""The ring of signing keys in its file."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.keys.grants import keyring
from apps.keys.grants.keyring import KeyRingFile, KeyRingRefused
from tests.keys.grants import vectors


def ring_file(folder: Path, *seed_bytes: int) -> KeyRingFile:
    made = iter([bytes([number]) * 32 for number in seed_bytes])
    return KeyRingFile(folder / "secrets" / "grant_keys.json", new_seed=lambda: next(made))


def test_the_first_use_makes_one_key_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    ring = ring_file(tmp_path, 7).ring(now_ms=5)
    path = tmp_path / "secrets" / "grant_keys.json"
    assert (ring.current.public.hex(), ring.current.created_at_ms) == (vectors.PUBLIC, 5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["grant_keys.json", "grant_keys.lock"]


def test_the_umask_does_not_open_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ring_file(tmp_path, 7).ring(now_ms=5)
    finally:
        os.umask(before)
    for entry in (tmp_path / "secrets").iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600, entry


def test_after_rotation_the_new_key_signs_and_the_old_one_only_verifies(tmp_path: Path) -> None:
    keys = ring_file(tmp_path, 7, 8)
    old = keys.ring(now_ms=5).current
    signature = old.sign(b"m")
    ring = keys.rotate(now_ms=9)
    kept = ring.find(old.id)
    assert ring.current.id != old.id and ring.current.seed is not None
    assert kept is not None and kept.verifies(signature, b"m") and not kept.verifies(signature, b"n")
    assert (kept.seed, kept.retired_at_ms) == (None, 9)
    with pytest.raises(KeyRingRefused):
        kept.sign(b"m")
    assert (b"\x07" * 32).hex() not in (tmp_path / "secrets" / "grant_keys.json").read_text()


def test_another_process_sees_a_rotation_at_its_next_use(tmp_path: Path) -> None:
    ours, theirs = ring_file(tmp_path, 7), ring_file(tmp_path, 8)
    ours.ring(now_ms=1)
    assert theirs.rotate(now_ms=2).current == ours.ring(now_ms=3).current


def test_a_dropped_key_verifies_nothing_and_the_current_one_cannot_be_dropped(tmp_path: Path) -> None:
    keys = ring_file(tmp_path, 7, 8)
    old = keys.ring(now_ms=1).current
    with pytest.raises(KeyRingRefused):
        keys.drop(old.id)
    keys.rotate(now_ms=2)
    assert keys.drop(old.id).find(old.id) is None
    with pytest.raises(KeyRingRefused):
        keys.drop(old.id)


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from apps.keys.grants.keyring import KeyRingFile;"
        "print(KeyRingFile(Path(sys.argv[1]) / 'secrets' / 'grant_keys.json').ring(now_ms=1).current.id)"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    ids = {process.communicate(timeout=60)[0].strip() for process in running}
    assert len(ids) == 1 and all(process.returncode == 0 for process in running)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"current": "k", "keys": []}', '{"current": "k", "keys": [{"id": "k"}]}', "\x00"]
)
def test_a_damaged_file_is_named_and_never_replaced_by_a_new_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secrets" / "grant_keys.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ImproperlyConfigured, match=r"grant_keys\.json"):
        ring_file(tmp_path, 7).ring(now_ms=1)
    assert path.read_text() == text


def test_a_current_key_without_its_private_half_is_damage(tmp_path: Path) -> None:
    keys = ring_file(tmp_path, 7)
    keys.ring(now_ms=1)
    path = tmp_path / "secrets" / "grant_keys.json"
    document = json.loads(path.read_text())
    document["keys"][0]["seed"] = None
    path.write_text(json.dumps(document))
    with pytest.raises(ImproperlyConfigured):
        keys.ring(now_ms=1)


def test_the_environment_gives_every_host_the_same_ring() -> None:
    text = f"{vectors.SEED.hex()}, {(bytes([8]) * 32).hex()}"
    ring = keyring._from_environment(text)
    assert [key.seed is None for key in ring.keys] == [False, True]
    assert ring.current.public.hex() == vectors.PUBLIC
    with pytest.raises(ImproperlyConfigured) as refused:
        keyring._from_environment(vectors.SEED.hex() + ",XYZ")
    assert vectors.SEED.hex() not in str(refused.value)


def test_no_private_half_shows_when_a_key_is_printed() -> None:
    key = keyring.key_from_seed(vectors.SEED, now_ms=0)
    ring = keyring.Ring(keys=(key,))
    for text in (repr(key), str(key), repr(ring)):
        assert vectors.SEED.hex() not in text and "\\x07" not in text
