"""If-Match and If-None-Match over record versions (RFC 9110 section 13): parsed here, decided by the services.

An entity tag is the record's version in quotes, `"3"`. Not here: the answer's headers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from apps.http.errors import ApiError
from apps.state.limits import ENTITY_TAGS
from apps.state.reading import invalid

_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
_LIST = re.compile(rf"[ \t,]*(?:{_TAG.pattern}[ \t]*(?:,[ \t,]*|$))*")
"""Tags between commas; a tag may hold a comma itself."""
_VERSION = re.compile(r"[1-9][0-9]{0,18}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tags:
    """The versions a header lists; `anything` for `*`. A tag that is no version of ours matches nothing."""

    anything: bool
    versions: frozenset[int]

    def match(self, version: int | None) -> bool:
        """Tell whether a record of this version (None = absent) is among them."""
        return version is not None and (self.anything or version in self.versions)


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """What the caller's headers ask of the record as it is now."""

    match: Tags | None = None
    none_match: Tags | None = None

    def __bool__(self) -> bool:
        return self.match is not None or self.none_match is not None

    def hold(self, version: int | None) -> bool:
        """Tell whether both hold of a record of this version (None = absent)."""
        if self.match is not None and not self.match.match(version):
            return False
        return self.none_match is None or not self.none_match.match(version)


NO_CONDITIONS = Conditions()


def read(headers: Mapping[str, str]) -> Conditions:
    """Read both headers. Raises VALIDATION_ERROR for one that is no list of entity tags."""
    match, none_match = headers.get("If-Match"), headers.get("If-None-Match")
    if match is None and none_match is None:
        return NO_CONDITIONS
    return Conditions(
        match=None if match is None else _tags(match, "If-Match", weak=False),
        none_match=None if none_match is None else _tags(none_match, "If-None-Match", weak=True),
    )


def refuse(headers: Mapping[str, str]) -> None:
    """Refuse both headers where the body itself says its conditions: they would be passed over in silence."""
    for name in ("If-Match", "If-None-Match"):
        if name in headers:
            raise invalid(f"{name} goes with GET, PUT, PATCH and DELETE; here conditions are in the body.", field=name)


def _tags(header: str, name: str, *, weak: bool) -> Tags:
    if header.strip() == "*":
        return Tags(anything=True, versions=frozenset())
    if not _LIST.fullmatch(header):
        raise invalid(f"{name} is '*' or a list of versions in quotes, such as \"3\".", field=name)
    found = [(tag[1], tag[2]) for tag in _TAG.finditer(header)]
    if not 1 <= len(found) <= ENTITY_TAGS:
        raise invalid(f"{name} is '*' or 1 to {ENTITY_TAGS} entity tags.", field=name)
    versions = {int(said) for weakly, said in found if _VERSION.fullmatch(said) and (weak or not weakly)}
    return Tags(anything=False, versions=frozenset(versions))


def entity_tag(version: int) -> str:
    """Return the entity tag of a record's version."""
    return f'"{version}"'


def failed(version: int | None) -> ApiError:
    """Return the refusal of a write or read whose conditions do not hold; `version` is the record's, None if absent."""
    return ApiError(
        "IF_MATCH_FAILED",
        "The record is not in the state that If-Match or If-None-Match asks for.",
        currentVersion=version or 0,
    )
