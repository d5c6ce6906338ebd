"""The instance's secrets: sealed under a passphrase, brought back, and named when they are lost."""

import base64
import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.keys import lost, peppering, peppers, sealing, secret_files, services, verify
from apps.keys.grants import keyring
from apps.keys.grants.services import issue_for
from apps.keys.principal import operator
from apps.keys.verify import principal_for
from apps.operations.services import doctor

PASSPHRASE = "correct horse battery staple"
NOW = services.utc_now()
NOW_MS = 1_800_000_000_000


@pytest.fixture
def folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The secrets of an instance of the test's own."""
    settings.DATA_DIR, settings.KEY_PEPPER, settings.GRANT_KEYS = tmp_path / "data", "", ""
    settings.DATA_DIR.mkdir()
    keyring.shared_file.cache_clear()
    monkeypatch.setattr(secret_files, "made_here", set())
    monkeypatch.setattr(sealing, "_N", 2**10)  # what is tested is not how dear guessing is
    yield secret_files.folder(settings.DATA_DIR)
    keyring.shared_file.cache_clear()


def sealed(folder: Path) -> bytes:
    return sealing.seal(folder, PASSPHRASE, now_ms=NOW_MS)[0]


def test_what_was_sealed_comes_back_as_it_was_for_its_owner_only(folder: Path, tmp_path: Path) -> None:
    peppers.known()
    (folder / "grant_keys.json").write_text('{"current": "ü"}\n')
    (folder / "grant_keys.lock").touch()
    (folder / ".left-over").write_text("no")
    before = {path.name: path.read_text() for path in folder.iterdir()}
    text, names = sealing.seal(folder, PASSPHRASE, now_ms=NOW_MS)
    assert list(names) == ["grant_keys.json", "key_pepper_v1"]
    other = tmp_path / "other"
    other.mkdir()
    done = sealing.restore(sealing.opened(text, PASSPHRASE), other, replace=False, now_ms=NOW_MS)
    assert set(done.written) == set(names)
    for name in names:
        assert (other / name).read_text() == before[name]
        assert stat.S_IMODE((other / name).stat().st_mode) == 0o600


def test_a_sealed_file_shows_nothing_of_a_secret_and_no_two_are_alike(folder: Path) -> None:
    pepper = peppers.known().by_version[1]
    one, other = sealed(folder), sealed(folder)
    assert one != other
    for text in (one, base64.b64decode(one.splitlines()[2])):
        assert pepper not in text and PASSPHRASE.encode() not in text


@pytest.mark.parametrize("passphrase", ["", "correct horse battery stapl", PASSPHRASE + " "])
def test_another_passphrase_opens_nothing(folder: Path, passphrase: str) -> None:
    peppers.known()
    with pytest.raises(sealing.SealRefused, match="passphrase"):
        sealing.opened(sealed(folder), passphrase)


def test_no_byte_of_a_sealed_file_can_be_changed(folder: Path) -> None:
    peppers.known()
    text = sealed(folder).rstrip(b"\n")
    for place in range(0, len(text), 37):
        changed = text[:place] + (b"A" if text[place : place + 1] != b"A" else b"B") + text[place + 1 :]
        with pytest.raises(sealing.SealRefused):
            sealing.opened(changed, PASSPHRASE)
    for cut in (b"", text[:20], text[:-5], b"x" * 1000):
        with pytest.raises(sealing.SealRefused):
            sealing.opened(cut, PASSPHRASE)


def test_a_cost_beyond_what_is_computed_here_is_refused_and_not_computed(folder: Path) -> None:
    peppers.known()
    first, about, body = sealed(folder).splitlines()
    dear = json.dumps({**json.loads(about), "n": 2**30}).encode()
    with pytest.raises(sealing.SealRefused, match="damaged"):
        sealing.opened(b"\n".join([first, dear, body]), PASSPHRASE)


@pytest.mark.parametrize("name", ["../escape", "a/b", ".hidden", "", "a b"])
def test_no_name_in_a_sealed_file_leads_out_of_the_folder(name: str) -> None:
    with pytest.raises(sealing.SealRefused):
        sealing._checked({name: "text"})


def test_a_short_passphrase_seals_nothing(folder: Path) -> None:
    peppers.known()
    with pytest.raises(sealing.SealRefused, match="16 characters"):
        sealing.seal(folder, "fifteen letters", now_ms=NOW_MS)


def test_another_secret_that_is_here_is_left_alone_or_set_aside_never_lost(folder: Path) -> None:
    peppers.known()
    files = sealing.opened(sealed(folder), PASSPHRASE)
    assert sealing.restore(files, folder, replace=False, now_ms=NOW_MS).same == ("key_pepper_v1",)
    (folder / "key_pepper_v1").write_text("another pepper, which may guard something" * 2)
    secret_files.made_here.clear()
    assert sealing.restore(files, folder, replace=False, now_ms=NOW_MS).other == ("key_pepper_v1",)
    assert (folder / "key_pepper_v1").read_text().startswith("another")
    assert sealing.restore(files, folder, replace=True, now_ms=NOW_MS).written == ("key_pepper_v1",)
    assert (folder / f".key_pepper_v1.replaced-{NOW_MS}").read_text().startswith("another")


def test_what_the_command_itself_made_for_want_of_one_stands_in_nobodys_way(folder: Path) -> None:
    peppers.known()
    files = sealing.opened(sealed(folder), PASSPHRASE)
    os.unlink(folder / "key_pepper_v1")
    secret_files.make(folder / "key_pepper_v1")
    assert sealing.restore(files, folder, replace=False, now_ms=NOW_MS).written == ("key_pepper_v1",)
    assert (folder / "key_pepper_v1").read_text() == files["key_pepper_v1"]


def test_a_restore_without_the_secrets_names_what_is_missing_and_with_them_nothing(
    folder: Path, make_key: Callable[..., Any], namespace: str
) -> None:
    issued = make_key()
    issue_for(principal_for(issued.key), tenant_id=namespace, application_id="app", now_ms=int(NOW.timestamp() * 1000))
    peppering.rotate(by=operator("tests"), now=NOW)
    make_key()
    assert lost.lost_secrets(now=NOW) == []
    text = sealed(folder)
    for path in folder.iterdir():
        path.unlink()
    keyring.shared_file.cache_clear()
    told = {each.name: each.consequence for each in lost.lost_secrets(now=NOW)}
    assert set(told) == {
        "key pepper, version 1: another than it was",
        "key pepper, version 2: missing",
        "keys that sign grants: missing",
    }
    assert told["keys that sign grants: missing"].startswith("1 live grants")
    assert {each.code for each in doctor._secrets()} == {"SECRETS_LOST"}
    sealing.restore(sealing.opened(text, PASSPHRASE), folder, replace=True, now_ms=NOW_MS)
    keyring.shared_file.cache_clear()
    verify.forget_all()
    assert lost.lost_secrets(now=NOW) == []
    assert verify.principal_of(issued.secret, now=NOW) is not None


def secrets(*arguments: str) -> str:
    out = io.StringIO()
    call_command("secrets", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_the_command_exports_imports_and_checks(folder: Path, tmp_path: Path, make_key: Callable[..., Any]) -> None:
    make_key()
    phrase, file = tmp_path / "phrase", tmp_path / "sealed"
    phrase.write_text(PASSPHRASE + "\n")
    said = secrets("export", str(file), "--passphrase-file", str(phrase))
    assert "key_pepper_v1" in said and stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(SystemExit):
        secrets("export", str(file), "--passphrase-file", str(phrase))
    assert "is here" in secrets("check")
    (folder / "key_pepper_v1").write_text("another pepper, of no use to anybody at all")
    secret_files.made_here.clear()
    with pytest.raises(SystemExit):
        secrets("check")
    with pytest.raises(SystemExit):
        secrets("import", str(file), "--passphrase-file", str(phrase))
    done = json.loads(secrets("import", str(file), "--passphrase-file", str(phrase), "--replace", "--json"))
    assert done["written"] == ["key_pepper_v1"]
    assert json.loads(secrets("check", "--json")) == {"missing": []}
