"""The keys that sign grants: one current, older ones only to verify what they signed.

    <data>/secrets/grant_keys.json     0600
        {"current": id, "keys": [{"id", "public": 64 hex, "seed": 64 hex or null, "created_at_ms", "retired_at_ms"}]}
    <data>/secrets/grant_keys.lock     held while the file is changed

An id is `feltdb-` and the first 16 hex digits of SHA-256 over the public key. Rotating makes a new current key and
destroys the old one's private half; what it signed still verifies. Dropping a key ends everything it signed. Where
several hosts share one database, the environment gives all of them the same ring (`FELTDB_GRANT_KEYS`: 64 hex digits of
a seed, then, by commas, further seeds that only verify) and the file is not used.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from apps.keys import epoch

_SEED = re.compile(r"[0-9a-f]{64}")


class KeyRingRefused(Exception):
    """A change of the ring that cannot be made; the message is for the operator who asked."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SigningKey:
    """One key of the ring. `seed` is its private half, None once it is retired; it is never shown."""

    id: str
    public: bytes
    seed: bytes | None
    created_at_ms: int
    retired_at_ms: int | None = None

    def __repr__(self) -> str:
        return f"SigningKey(id={self.id!r})"

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of the signature. Raises KeyRingRefused for a key that only verifies."""
        if self.seed is None:
            raise KeyRingRefused(f"the key {self.id} only verifies")
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Tell whether this key made the signature."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Ring:
    """The keys of an instance, the current one first."""

    keys: tuple[SigningKey, ...]

    @property
    def current(self) -> SigningKey:
        """Return the key that signs."""
        return self.keys[0]

    def find(self, key_id: str) -> SigningKey | None:
        """Return the key of that id."""
        return next((key for key in self.keys if key.id == key_id), None)


def key_from_seed(seed: bytes, *, now_ms: int, key_id: str | None = None) -> SigningKey:
    """Return the key whose private half is the 32 bytes of `seed`."""
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    made_id = "feltdb-" + hashlib.sha256(public).hexdigest()[:16]
    return SigningKey(id=key_id or made_id, public=public, seed=seed, created_at_ms=now_ms)


class KeyRingFile:
    """The ring in its file. Another process's change is seen by the next read."""

    def __init__(self, path: Path, *, new_seed: Callable[[], bytes] = lambda: secrets.token_bytes(32)) -> None:
        self._path = path
        self._new_seed = new_seed
        self._read: tuple[tuple[int, int, int], Ring] | None = None

    def ring(self, *, now_ms: int) -> Ring:
        """Return the ring; the first call of all makes its first key."""
        try:
            stamp = self._stamp()
        except FileNotFoundError:
            return self._make(now_ms)
        known = self._read
        if known is None or known[0] != stamp:
            known = self._read = (stamp, _parse(self._path))
        return known[1]

    def rotate(self, *, now_ms: int) -> Ring:
        """Make a new current key; the private half of the old one is destroyed."""
        self.ring(now_ms=now_ms)
        with self._changing():
            old = _parse(self._path)
            retired = replace(old.current, seed=None, retired_at_ms=now_ms)
            ring = Ring(keys=(key_from_seed(self._new_seed(), now_ms=now_ms), retired, *old.keys[1:]))
            self._write(ring)
        return ring

    def drop(self, key_id: str) -> Ring:
        """Forget a retired key, and with it everything it signed. Raises KeyRingRefused for any other."""
        with epoch.shared().moving(), self._changing():
            old = _parse(self._path)
            if old.current.id == key_id:
                raise KeyRingRefused("this is the current key; rotate first")
            if old.find(key_id) is None:
                raise KeyRingRefused(f"there is no key '{key_id}' in the ring")
            ring = Ring(keys=tuple(key for key in old.keys if key.id != key_id))
            self._write(ring)
        return ring

    def _make(self, now_ms: int) -> Ring:
        with self._changing():
            if not self._path.exists():
                self._write(Ring(keys=(key_from_seed(self._new_seed(), now_ms=now_ms),)))
        return self.ring(now_ms=now_ms)

    def _stamp(self) -> tuple[int, int, int]:
        facts = os.stat(self._path)
        return facts.st_ino, facts.st_mtime_ns, facts.st_size

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, ring: Ring) -> None:
        """Replace the file whole: forced before it takes the name, and the name forced after."""
        temporary = self._path.with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as handle:
                handle.write(_text(ring))
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def shared_ring(*, now_ms: int) -> Ring:
    """Return this instance's ring: the environment's where it names one, else the file's."""
    return _from_environment(settings.GRANT_KEYS) if settings.GRANT_KEYS else shared_file().ring(now_ms=now_ms)


@cache
def shared_file() -> KeyRingFile:
    """Return this instance's ring in its file."""
    return KeyRingFile(Path(settings.DATA_DIR) / "secrets" / "grant_keys.json")


@cache
def _from_environment(text: str) -> Ring:
    seeds = [part.strip() for part in text.split(",")]
    if not all(_SEED.fullmatch(seed) for seed in seeds):
        raise ImproperlyConfigured("FELTDB_GRANT_KEYS holds seeds of 64 lower-case hex digits, separated by commas")
    current, *older = [key_from_seed(bytes.fromhex(seed), now_ms=0) for seed in seeds]
    return Ring(keys=(current, *(replace(key, seed=None) for key in older)))


def _text(ring: Ring) -> str:
    keys = [
        {
            "id": key.id,
            "public": key.public.hex(),
            "seed": None if key.seed is None else key.seed.hex(),
            "created_at_ms": key.created_at_ms,
            "retired_at_ms": key.retired_at_ms,
        }
        for key in ring.keys
    ]
    return json.dumps({"current": ring.current.id, "keys": keys}, indent=1) + "\n"


def _parse(path: Path) -> Ring:
    try:
        document = json.loads(path.read_text(encoding="ascii"))
        keys = [
            SigningKey(
                id=str(item["id"]),
                public=bytes.fromhex(item["public"]),
                seed=None if item["seed"] is None else bytes.fromhex(item["seed"]),
                created_at_ms=int(item["created_at_ms"]),
                retired_at_ms=None if item["retired_at_ms"] is None else int(item["retired_at_ms"]),
            )
            for item in document["keys"]
        ]
        keys.sort(key=lambda key: key.id != document["current"])
        if keys[0].id != document["current"] or keys[0].seed is None:
            raise ValueError("the current key is missing or has no private half")
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ImproperlyConfigured(
            f"{path} is no ring of signing keys; restore it from your secrets: {error}"
        ) from None
    return Ring(keys=tuple(keys))
