"""Why a grant is refused. Each carries one of the stable codes of `apps.http.codes`.

GrantRefused
├── GrantInvalid        GRANT_INVALID             malformed, unknown, of another form, key or time
├── GrantScopeDenied    GRANT_SCOPE_DENIED        for somebody, something or somewhere else; or not held by the issuer
├── GrantExpired        GRANT_EXPIRED             its end, or that of what it stands on, is past
├── GrantRevoked        GRANT_REVOKED             it, an ancestor or the key it came from is revoked
├── ReauthorizationRequired  REAUTHORIZATION_REQUIRED  what was authorized has changed since
├── DelegationInvalid   GRANT_DELEGATION_INVALID  not narrower, too deep, an id already used
├── GrantNotFound       NOT_FOUND                 there is none the caller may see
└── GrantConflict       CONFLICT                  the id is used
"""

from typing import ClassVar

from apps.http.errors import ApiError


class GrantRefused(Exception):
    """A grant that is not given or does not hold. The message is for whoever asked; `field` names what is wrong."""

    code: ClassVar[str]

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def as_api_error(self) -> ApiError:
        """Return the refusal as HTTP gives it."""
        details = {"field": self.field} if self.field else None
        return ApiError(self.code, f"{self.message[:1].upper()}{self.message[1:]}.", details=details)


class GrantInvalid(GrantRefused):
    """Malformed, unknown, or of another form, signing key or time."""

    code = "GRANT_INVALID"


class GrantScopeDenied(GrantRefused):
    """For somebody, something or somewhere else; or more than the issuer holds."""

    code = "GRANT_SCOPE_DENIED"


class GrantExpired(GrantRefused):
    """Its end, or the end of what it stands on, is past."""

    code = "GRANT_EXPIRED"


class GrantRevoked(GrantRefused):
    """It, an ancestor, or the key it came from is revoked or holds less now."""

    code = "GRANT_REVOKED"


class DelegationInvalid(GrantRefused):
    """Not narrower than its parent, too deep, or with an id that is used."""

    code = "GRANT_DELEGATION_INVALID"


class ReauthorizationRequired(GrantRefused):
    """The thing the decision was about has another revision now."""

    code = "REAUTHORIZATION_REQUIRED"


class GrantNotFound(GrantRefused):
    """There is no such grant, or none the caller may see."""

    code = "NOT_FOUND"


class GrantConflict(GrantRefused):
    """The id is used by another grant."""

    code = "CONFLICT"
