"""Secrets that an instance makes for itself and keeps in `<data>/secrets`, one file each, mode 0600.

Settings read through here, so nothing of Django is used. Not here: what each secret is for.
"""

import os
import secrets
from pathlib import Path

MIN_CHARS = 32
"""Characters a secret has at least; those made here have 64."""


class SecretUnusable(Exception):
    """A file that holds no usable secret; the message is for the operator."""


def folder(data_dir: Path) -> Path:
    """Return the directory of the instance's secrets, made if it was not there."""
    path = data_dir / "secrets"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def read_or_make(path: Path) -> str:
    """Return the secret in the file, made once, whoever starts at the same time. Raises SecretUnusable."""
    if not path.exists():
        make(path)
    return read(path)


def read(path: Path) -> str:
    """Return the secret in the file. Raises SecretUnusable, FileNotFoundError."""
    secret = path.read_text(encoding="ascii", errors="replace").strip()
    if len(secret) < MIN_CHARS:
        raise SecretUnusable(
            f"{path} holds fewer than {MIN_CHARS} characters; restore it or remove it to make a new one"
        )
    return secret


made_here: set[Path] = set()
"""The secrets that this process made, for want of one."""


def make(path: Path) -> bool:
    """Write a new secret, forced to disk before it takes its name; returns False where the file was there already."""
    made = write_new(path, secrets.token_urlsafe(48))
    if made:
        made_here.add(path)
    return made


def write_new(path: Path, text: str) -> bool:
    """Write the text under a name that is free, whole and forced, mode 0600; returns False where it is taken."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    force_names(path.parent)
    return True


def force_names(directory: Path) -> None:
    """Force the directory, so that names made or removed in it stay so."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
