"""A request's headers by name, each looked up when it is asked for: few are, of all that a caller sends."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from django.http import HttpRequest


class Headers(Mapping[str, str]):
    """As Django's `request.headers`, which is put together from all of them first; names in any case."""

    __slots__ = ("_meta", "_request")

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._meta = request.META

    def __getitem__(self, name: str) -> str:
        found: str = self._meta[_named(name)]
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Return the header's value, or `default`."""
        return self._meta.get(_named(name), default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._request.headers)

    def __len__(self) -> int:
        return len(self._request.headers)


@lru_cache(maxsize=64)
def _named(name: str) -> str:
    """Return the name as `META` has it. Only our own code asks, for a few names."""
    plain = name.upper().replace("-", "_")
    return plain if plain in _UNPREFIXED else f"HTTP_{plain}"


_UNPREFIXED = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})
"""CGI's names of these two have no prefix."""
