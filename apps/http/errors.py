"""The one exception by which any room refuses a request. What becomes of it: `exceptions.py` and `envelope.py`."""

from collections.abc import Mapping
from typing import Any

from apps.http.codes import CODES


class ApiError(Exception):
    """A refusal with a stable code of `codes.CODES`.

    `message` is a plain sentence for the caller; `details` names the field or pointer; `headers` go out with
    the answer; `members` stand beside the envelope's own (`reason="MISSING_SCOPE"`, `committed=False`, ...).
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Any = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = CODES[code].status
        self.message = message
        self.details = details
        self.headers = dict(headers or {})
        self.members = members


def authentication_required() -> ApiError:
    """Return the one answer for no key, an unknown, wrong, revoked or expired one."""
    return ApiError(
        "AUTHENTICATION_REQUIRED",
        "Send a valid key as 'Authorization: Bearer fdb_...'.",
        headers={"WWW-Authenticate": 'Bearer realm="feltdb"'},
    )
