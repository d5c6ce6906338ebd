"""How passwords are kept: Argon2id, computed behind the gate of `memory_hard.py` whoever asks for it.

Parameters: 64 MiB, 3 passes, one lane (RFC 9106's choice for machines that do other work too, with the lane that a
thread of ours is). About 0.15 s.
"""

import hashlib

from django.contrib.auth.hashers import Argon2PasswordHasher

from apps.keys.memory_hard import gate


class BoundedArgon2PasswordHasher(Argon2PasswordHasher):
    """Django's hasher with our parameters, in turn. Raises ApiError SERVICE_OVERLOADED where there is no turn."""

    time_cost = 3
    memory_cost = 65_536  # KiB
    parallelism = 1

    def encode(self, password: str, salt: str) -> str:
        """Hash a new password."""
        return gate().run("", lambda: super(BoundedArgon2PasswordHasher, self).encode(password, salt))

    def verify(self, password: str, encoded: str) -> bool:
        """Tell whether the password is the one kept; one at a time for each account, which the kept text names."""
        account = hashlib.sha256(encoded.encode()).hexdigest()
        return gate().run(account, lambda: super(BoundedArgon2PasswordHasher, self).verify(password, encoded))
