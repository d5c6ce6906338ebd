"""How passwords are kept: Argon2id, computed behind the gate of `memory_hard.py` whoever asks for it.

Parameters: 19 MiB, 2 passes, one lane, as OWASP's cheat sheet has it and the reference too: about 30 ms. Passwords have
12 characters at least and failures are limited at every door, so a dearer hash would cost the server more than whoever
steals its database.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.contrib.auth.hashers import Argon2PasswordHasher

from apps.keys.memory_hard import computed

_asked: ContextVar[str] = ContextVar("feltdb_password_of", default="")


@contextmanager
def of(account: str) -> Iterator[None]:
    """Around trying a password: `account` is whose it is said to be, whether or not there is such a person.

    One is tried at a time for each, also of a name that is nobody's: two at once would tell them apart.
    """
    token = _asked.set(account)
    try:
        yield
    finally:
        _asked.reset(token)


class BoundedArgon2PasswordHasher(Argon2PasswordHasher):
    """Django's hasher with our parameters, in turn. Raises ApiError SERVICE_OVERLOADED where there is no turn."""

    time_cost = 2
    memory_cost = 19_456  # KiB
    parallelism = 1

    def encode(self, password: str, salt: str) -> str:
        """Hash a new password; Django does so too where somebody tries one of a name that is nobody's."""
        return computed(_asked.get(), lambda: super(BoundedArgon2PasswordHasher, self).encode(password, salt))

    def verify(self, password: str, encoded: str) -> bool:
        """Tell whether the password is the one kept."""
        return computed(_asked.get(), lambda: super(BoundedArgon2PasswordHasher, self).verify(password, encoded))
