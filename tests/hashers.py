"""Argon2 made cheap: what is tested is that passwords are hashed by it, not how dear it is."""

from apps.keys.passwords import BoundedArgon2PasswordHasher


class CheapArgon2(BoundedArgon2PasswordHasher):
    """The instance's own hasher with the least cost it allows."""

    time_cost = 1
    memory_cost = 64
    parallelism = 1
