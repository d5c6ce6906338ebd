"""The one error tree of requests about keys."""


class KeyRefused(Exception):
    """A request about keys that cannot be carried out; the message is for the person who asked.

    KeyRefused
    ├── KeyInvalid     what was asked for is malformed (field)
    ├── KeyDenied      the issuer does not hold what it would give
    ├── KeyConflict    it is not as whoever asked had seen it
    └── KeyNotFound    there is no such key
    """


class KeyInvalid(KeyRefused):
    """What was asked for is malformed; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class KeyDenied(KeyRefused):
    """The issuer does not hold what it would give."""


class KeyConflict(KeyRefused):
    """The key is not as whoever asked had seen it: somebody was faster, or pressed twice."""


class KeyNotFound(KeyRefused):
    """There is no such key, or none the caller may see."""
