"""DRF authentication by key: `Authorization: Bearer fdb_...`."""

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from apps.http.errors import authentication_required
from apps.keys import verify
from apps.keys.clock import utc_now
from apps.keys.limits import MAX_TOKEN_CHARS
from apps.keys.principal import Principal


class KeyAuthentication(BaseAuthentication):
    """Gives the principal as `request.user` and `request.auth`, or refuses with the one 401."""

    def authenticate(self, request: Request) -> tuple[Principal, Principal]:
        """Return the caller. Raises ApiError AUTHENTICATION_REQUIRED for no key and for any that does not hold."""
        scheme, _, text = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        text = text.strip(" \t")
        if scheme.lower() != "bearer" or not text or len(text) > MAX_TOKEN_CHARS:
            raise authentication_required()
        principal = verify.principal_of(text, now=utc_now())
        if principal is None:
            raise authentication_required()
        return principal, principal

    def authenticate_header(self, request: Request) -> str:
        """Return what a 401 names in WWW-Authenticate."""
        return 'Bearer realm="feltdb"'
