"""The instance's secrets in one file under a passphrase, apart from any backup of its data; and back from it.

    line 1    feltdb-secrets 1
    line 2    {"kdf": "scrypt", "n", "r", "p", "salt": hex, "cipher": "AES-256-GCM", "nonce": hex}
    line 3    base64 of the sealed JSON  {"made_at_ms", "files": {name: text}}; lines 1 and 2 are authenticated with it

Sealed are the files of `<data>/secrets`: peppers, the keys that sign grants, Django's secret, those of webhooks. What
the environment holds instead is the operator's to keep. Not here: which of them a database needs (`lost.py`).
"""

import base64
import binascii
import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from apps.keys import secret_files
from apps.keys.limits import MAX_SEALED_BYTES, MAX_SECRET_FILE_BYTES, MIN_PASSPHRASE_CHARS

_FIRST_LINE = b"feltdb-secrets 1"
_N, _R, _P = 2**16, 8, 1  # 64 MiB, about 0.2 s
_MOST_N = 2**20


class SealRefused(Exception):
    """What cannot be sealed or opened; the message is for the operator and holds no secret."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What became of each file of a sealed one: written, the same already, or another here that was left alone."""

    written: tuple[str, ...]
    same: tuple[str, ...]
    other: tuple[str, ...]


def seal(folder: Path, passphrase: str, *, now_ms: int) -> tuple[bytes, Sequence[str]]:
    """Return the sealed secrets of the folder, and their names. Raises SealRefused."""
    if len(passphrase) < MIN_PASSPHRASE_CHARS:
        raise SealRefused(f"a passphrase has at least {MIN_PASSPHRASE_CHARS} characters")
    files = _collected(folder)
    if not files:
        raise SealRefused(f"there is no secret in {folder}")
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    about = {
        "kdf": "scrypt",
        "n": _N,
        "r": _R,
        "p": _P,
        "salt": salt.hex(),
        "cipher": "AES-256-GCM",
        "nonce": nonce.hex(),
    }
    head = _FIRST_LINE + b"\n" + json.dumps(about, separators=(",", ":")).encode("ascii") + b"\n"
    plain = json.dumps({"made_at_ms": now_ms, "files": files}).encode()
    sealed = AESGCM(_key(passphrase, salt, _N, _R, _P)).encrypt(nonce, plain, head)
    return head + base64.b64encode(sealed) + b"\n", sorted(files)


def opened(sealed: bytes, passphrase: str) -> Mapping[str, str]:
    """Return the files in a sealed one. Raises SealRefused: no such file, damaged, or another passphrase."""
    first, _, rest = sealed[:MAX_SEALED_BYTES].partition(b"\n")
    second, _, body = rest.partition(b"\n")
    if first != _FIRST_LINE:
        raise SealRefused("this is no file of sealed secrets, or one of a later version")
    try:
        about = json.loads(second)
        n, r, p = (int(about[name]) for name in ("n", "r", "p"))
        salt, nonce = bytes.fromhex(about["salt"]), bytes.fromhex(about["nonce"])
        if not (2 <= n <= _MOST_N and n & (n - 1) == 0 and 1 <= r <= 16 and 1 <= p <= 4 and len(nonce) == 12):
            raise ValueError("beyond what is computed here")
        content = base64.b64decode(body.strip(), validate=True)
        plain = AESGCM(_key(passphrase, salt, n, r, p)).decrypt(nonce, content, first + b"\n" + second + b"\n")
        files = json.loads(plain)["files"]
    except InvalidTag:
        raise SealRefused("the passphrase is another, or the file is damaged") from None
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise SealRefused("the file is damaged") from None
    return _checked(files)


def restore(files: Mapping[str, str], folder: Path, *, replace: bool, now_ms: int) -> Restored:
    """Write the files that are not in the folder; with `replace` also over others, which are set aside first.

    What this very process made at its start, for want of one, guards nothing yet and is set aside anyway.
    """
    written, same, other = [], [], []
    for name, text in sorted(files.items()):
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8").strip() == text.strip():
            same.append(name)
            continue
        if path.exists():
            if not replace and path not in secret_files.made_here:
                other.append(name)
                continue
            os.replace(path, path.with_name(f".{name}.replaced-{now_ms}"))
        if not secret_files.write_new(path, text):
            raise SealRefused(f"{path} was made meanwhile; is a server running? Stop it and begin again")
        written.append(name)
    return Restored(written=tuple(written), same=tuple(same), other=tuple(other))


def _collected(folder: Path) -> dict[str, str]:
    files = {}
    for path in sorted(folder.iterdir()):
        facts = path.lstat()
        if path.name.startswith(".") or path.suffix == ".lock" or not stat.S_ISREG(facts.st_mode):
            continue
        if facts.st_size > MAX_SECRET_FILE_BYTES:
            raise SealRefused(f"{path} is larger than any secret of an instance")
        files[path.name] = path.read_text(encoding="utf-8")
    return files


def _checked(files: Any) -> Mapping[str, str]:
    """Return the files, none of whose names leads out of the folder."""
    if not isinstance(files, dict) or not files:
        raise SealRefused("the file is damaged")
    for name, text in files.items():
        if not isinstance(text, str) or not name.isascii() or not name.replace("_", "").replace(".", "").isalnum():
            raise SealRefused("the file is damaged")
        if name.startswith("."):
            raise SealRefused("the file is damaged")
    return files


def _key(passphrase: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return Scrypt(salt=salt, length=32, n=n, r=r, p=p).derive(passphrase.encode())
