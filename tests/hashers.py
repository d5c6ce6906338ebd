"""Argon2 made cheap: what is tested is that passwords are hashed by it, not how dear it is."""

from django.contrib.auth.hashers import Argon2PasswordHasher


class CheapArgon2(Argon2PasswordHasher):
    """The same algorithm and form with the least cost it allows."""

    time_cost = 1
    memory_cost = 64
    parallelism = 1
