"""The peppers: secrets outside the database under which the digests of keys are kept. Numbered; the highest is current.

    <data>/secrets/key_pepper_v<N>    one secret each, mode 0600; the first is made by the first process
    FELTDB_KEY_PEPPER                 for hosts that share one database: the text of version 1, or
                                      `v2:<text>,v1:<text>`; then no file is used

New digests are made under the current one. What was made under an older one goes on, and is moved to the current one
when it is used. A running process sees a new file at its next look at the database. Not here: which pepper a digest
was made under (`KeySecret`), and whether this pepper is the one it was (`PepperRecord` keeps a fingerprint of each).
"""

import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from apps.keys import secret_files
from apps.keys.limits import MAX_PEPPERS

_FILE = re.compile(r"key_pepper_v([1-9][0-9]{0,3})")
_NAMED = re.compile(r"v([0-9]{1,4}):(.*)", re.DOTALL)


class PepperRefused(Exception):
    """A change of the peppers that cannot be made; the message is for the operator who asked."""


@dataclass(frozen=True, slots=True, repr=False)
class Peppers:
    """Every pepper this instance has, by version. Their text is never shown."""

    current: int
    by_version: Mapping[int, bytes]

    def __repr__(self) -> str:
        return f"Peppers(current={self.current}, versions={sorted(self.by_version)})"

    def digests(self, text: str) -> dict[int, bytes]:
        """Return the digest of a token's text under each pepper: the same work whichever a key was made under."""
        raw = text.encode("utf-8", "surrogatepass")
        return {version: hmac.digest(pepper, raw, hashlib.sha256) for version, pepper in self.by_version.items()}

    def fingerprint(self, version: int) -> str:
        """Return what tells this pepper from another of the same number, and nothing else about it."""
        return hmac.digest(self.by_version[version], b"feltdb pepper fingerprint", hashlib.sha256).hex()[:32]


_read: tuple[object, Peppers] | None = None


def known() -> Peppers:
    """Return the peppers as they are now. Raises ImproperlyConfigured where one is unusable."""
    global _read
    source = settings.KEY_PEPPER or _stamp()
    if _read is None or _read[0] != source:
        _read = (source, _from_text(settings.KEY_PEPPER) if settings.KEY_PEPPER else _from_files())
    return _read[1]


def in_environment() -> bool:
    """Tell whether the environment names the peppers, so that no file is used."""
    return bool(settings.KEY_PEPPER)


def add(version: int) -> None:
    """Make the pepper of that version, which must be new and the highest. Raises PepperRefused."""
    _only_files("put `v<N>:<new text>,` before what it holds, on every host, and restart")
    peppers = known()
    if version <= peppers.current:
        raise PepperRefused(f"the current pepper has version {peppers.current}; a new one has a higher number")
    if len(peppers.by_version) >= MAX_PEPPERS:
        raise PepperRefused(f"there are {MAX_PEPPERS} peppers already; drop one that nothing is kept under any more")
    if not secret_files.make(_path(version)):
        raise PepperRefused(f"{_path(version)} is there already")


def remove(version: int) -> None:
    """Destroy an older pepper. Raises PepperRefused for the current one and for one that is not here."""
    _only_files("take it out there")
    peppers = known()
    if version == peppers.current:
        raise PepperRefused("this is the current pepper; rotate first")
    if version not in peppers.by_version:
        raise PepperRefused(f"there is no pepper of version {version} here")
    _path(version).unlink()
    secret_files.force_names(_path(version).parent)


def _only_files(otherwise: str) -> None:
    if in_environment():
        raise PepperRefused(f"FELTDB_KEY_PEPPER names the peppers; {otherwise}")


def _folder() -> Path:
    return secret_files.folder(Path(settings.DATA_DIR))


def _path(version: int) -> Path:
    return _folder() / f"key_pepper_v{version}"


def _stamp() -> object:
    """Return what differs when a pepper was added, removed or replaced."""
    path = os.path.join(settings.DATA_DIR, "secrets")
    try:
        return path, os.stat(path).st_mtime_ns, *os.listdir(path)
    except FileNotFoundError:
        return None


def _from_files() -> Peppers:
    if not any(_FILE.fullmatch(name) for name in os.listdir(_folder())):
        secret_files.make(_path(1))
    found = {}
    for name in os.listdir(_folder()):
        match = _FILE.fullmatch(name)
        if match:
            try:
                found[int(match.group(1))] = secret_files.read(_folder() / name).encode()
            except secret_files.SecretUnusable as error:
                raise ImproperlyConfigured(str(error)) from None
    return Peppers(max(found), found)


def _from_text(text: str) -> Peppers:
    parts = text.split(",") if _NAMED.fullmatch(text) else [f"v1:{text}"]
    found: dict[int, bytes] = {}
    for part in parts:
        match = _NAMED.fullmatch(part.strip())
        number = 0 if match is None else int(match.group(1))
        if match is None or len(match.group(2)) < secret_files.MIN_CHARS or number == 0 or number in found:
            raise ImproperlyConfigured(
                "FELTDB_KEY_PEPPER holds one text, or `v2:<text>,v1:<text>`; each has at least "
                f"{secret_files.MIN_CHARS} characters, none of them a comma, and a number of its own"
            )
        found[number] = match.group(2).encode()
    if len(found) > MAX_PEPPERS:
        raise ImproperlyConfigured(f"FELTDB_KEY_PEPPER names more than {MAX_PEPPERS} peppers")
    return Peppers(max(found), found)
