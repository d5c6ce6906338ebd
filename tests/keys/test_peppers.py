"""The peppers of an instance: from files or the environment, rotated, and noticed when they are not what they were."""

import os
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.keys import bookkeeping, limits, peppering, peppers, services, token, verify
from apps.keys.models import KeySecret, PepperRecord
from apps.keys.principal import operator

OPERATOR = operator("tests")
NOW = services.utc_now()
ONE, TWO = "1" * 40, "2" * 40


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    """The secrets of an instance of the test's own."""
    settings.DATA_DIR, settings.KEY_PEPPER = tmp_path, ""
    return tmp_path / "secrets"


def kept_under(issued: services.IssuedKey) -> int:
    return KeySecret.objects.get(key=issued.key).pepper_version


def holds(issued: services.IssuedKey) -> bool:
    verify.forget_all()
    return verify.principal_of(issued.secret, now=NOW) is not None


def test_the_first_look_makes_the_first_pepper_for_its_owner_only(folder: Path) -> None:
    assert peppers.known().current == 1
    path = folder / "key_pepper_v1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert peppers.known().by_version == {1: path.read_bytes()}
    assert path.read_text() not in repr(peppers.known())


def test_a_digest_is_the_hmac_of_the_whole_token_under_each_pepper(folder: Path) -> None:
    one, other = token.new_token("a" * 12, "live"), token.new_token("a" * 12, "live")
    peppers.known()
    peppers.add(2)
    digests = peppers.known().digests(one.text)
    assert set(digests) == {1, 2} and digests[1] != digests[2]
    assert all(len(digest) == 32 for digest in digests.values())
    assert digests == peppers.known().digests(one.text) and digests[1] != peppers.known().digests(other.text)[1]


def test_a_running_process_sees_a_rotation_and_issues_under_the_new_pepper(
    folder: Path, make_key: Callable[..., Any]
) -> None:
    before = make_key()
    assert peppering.rotate(by=OPERATOR, now=NOW) == 2
    after = make_key()
    assert (kept_under(before), kept_under(after)) == (1, 2)
    assert holds(before) and holds(after)


def test_a_key_kept_under_an_old_pepper_goes_on_and_is_moved_when_it_is_used(
    folder: Path, make_key: Callable[..., Any]
) -> None:
    used, unused = make_key(), make_key()
    peppering.rotate(by=OPERATOR, now=NOW)
    assert holds(used)
    assert kept_under(used) == 1, "moved on the request's own path"
    bookkeeping.flush(now=NOW)
    assert (kept_under(used), kept_under(unused)) == (2, 1)
    assert holds(used) and holds(unused)


def test_a_move_that_a_rotation_of_the_key_overtook_changes_nothing(folder: Path, make_key: Callable[..., Any]) -> None:
    issued = make_key()
    peppering.rotate(by=OPERATOR, now=NOW)
    assert holds(issued)
    rotated = services.rotate_key(issued.key.id, by=OPERATOR)
    bookkeeping.flush(now=NOW)
    assert holds(rotated) and not holds(issued)


def test_an_old_pepper_is_dropped_only_when_nothing_live_is_kept_under_it(
    folder: Path, make_key: Callable[..., Any]
) -> None:
    used, revoked = make_key(), make_key()
    services.revoke_key(revoked.key.id, by=OPERATOR)
    with pytest.raises(peppers.PepperRefused):
        peppering.drop(1, by=OPERATOR, now=NOW)
    peppering.rotate(by=OPERATOR, now=NOW)
    with pytest.raises(peppers.PepperRefused, match="1 live secret"):
        peppering.drop(1, by=OPERATOR, now=NOW)
    assert holds(used)
    bookkeeping.flush(now=NOW)
    peppering.drop(1, by=OPERATOR, now=NOW)
    assert set(peppers.known().by_version) == {2} and holds(used)
    assert not (folder / "key_pepper_v1").exists()
    assert peppering.rotate(by=OPERATOR, now=NOW) == 3


def test_the_current_pepper_and_one_that_is_not_here_are_not_dropped(folder: Path, db: None) -> None:
    for version in (peppers.known().current, 9):
        with pytest.raises(peppers.PepperRefused):
            peppering.drop(version, by=OPERATOR, now=NOW)


def test_there_is_a_limit_to_peppers(folder: Path, db: None) -> None:
    peppers.known()
    for _ in range(limits.MAX_PEPPERS - 1):
        peppering.rotate(by=OPERATOR, now=NOW)
    with pytest.raises(peppers.PepperRefused):
        peppering.rotate(by=OPERATOR, now=NOW)


def test_a_database_restored_without_its_pepper_is_noticed_and_issues_nothing_under_the_wrong_one(
    folder: Path, make_key: Callable[..., Any]
) -> None:
    lost = make_key()
    os.unlink(folder / "key_pepper_v1")
    assert not holds(lost), "a new pepper took the place of the lost one, which must open nothing"
    with pytest.raises(services.KeyRefused, match="restore the instance's secrets"):
        make_key()
    [standing] = peppering.standings(now=NOW)
    assert (standing.version, standing.present, standing.genuine, standing.live_secrets) == (1, True, False, 1)
    peppering.rotate(by=OPERATOR, now=NOW)
    assert holds(make_key()) and not holds(lost)


def test_standings_name_a_pepper_that_is_missing_and_what_is_kept_under_it(
    folder: Path, make_key: Callable[..., Any]
) -> None:
    make_key(), make_key(expires_at=NOW, now=NOW - timedelta(days=1))
    peppering.rotate(by=OPERATOR, now=NOW)
    make_key()
    os.unlink(folder / "key_pepper_v1")
    told = [
        (each.version, each.current, each.present, each.genuine, each.live_secrets)
        for each in peppering.standings(now=NOW)
    ]
    assert told == [(1, False, False, False, 1), (2, True, True, True, 1)]


def test_the_environment_names_one_pepper_or_several_by_version(folder: Path, settings: Any) -> None:
    settings.KEY_PEPPER = ONE
    assert (peppers.known().current, peppers.known().by_version) == (1, {1: ONE.encode()})
    settings.KEY_PEPPER = f"v2:{TWO}, v1:{ONE}"
    assert (peppers.known().current, peppers.known().by_version) == (2, {1: ONE.encode(), 2: TWO.encode()})
    assert not folder.exists(), "no file is used"


@pytest.mark.parametrize(
    "text",
    [
        "short",
        f"v1:{ONE},v1:{TWO}",
        f"v2:{TWO},{ONE}",
        "v1:",
        f"v0:{ONE}",
        ",".join(f"v{n}:{ONE}" for n in range(1, 7)),
    ],
)
def test_a_text_in_the_environment_that_cannot_be_used_stops_and_is_not_repeated(text: str, settings: Any) -> None:
    settings.KEY_PEPPER = text
    with pytest.raises(ImproperlyConfigured) as refused:
        peppers.known()
    assert ONE not in str(refused.value) and TWO not in str(refused.value)


def test_peppers_of_the_environment_are_not_rotated_here(folder: Path, settings: Any, db: None) -> None:
    settings.KEY_PEPPER = ONE
    for change in (lambda: peppering.rotate(by=OPERATOR, now=NOW), lambda: peppers.remove(1)):
        with pytest.raises(peppers.PepperRefused, match="FELTDB_KEY_PEPPER"):
            change()
    assert not PepperRecord.objects.exists()


def test_a_fingerprint_tells_peppers_apart_and_nothing_about_them(settings: Any) -> None:
    settings.KEY_PEPPER = ONE
    one = peppers.known().fingerprint(1)
    settings.KEY_PEPPER = TWO
    assert one != peppers.known().fingerprint(1) and len(one) == 32 and ONE not in one
