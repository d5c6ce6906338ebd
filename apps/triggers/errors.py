"""Every refusal of this room. Codes and statuses: `apps/http/codes.py`.

TriggerError (an ApiError)
├── TriggerInvalid         TRIGGER_INVALID              (details: field, or pointer into the predicate)
├── TriggerUnauthorized    TRIGGER_UNAUTHORIZED
├── TriggerNotFound        TRIGGER_NOT_FOUND
├── TriggerConflict        CONFLICT
├── ControlPlaneMismatch   CONTROL_PLANE_MISMATCH
├── ReplayFailed           TRIGGER_STATE_REPLAY_FAILED  (the feed could not be read; tried again)
└── TriggerStorageFailure  TRIGGER_STORAGE_FAILURE      (the control plane could not be written; tried again)
"""

from typing import Any

from apps.http.errors import ApiError


class TriggerError(ApiError):
    """A refusal by the triggers room."""


class TriggerInvalid(TriggerError):
    """A definition that cannot be one; `details["field"]` names the member."""

    def __init__(self, message: str, *, field: str, pointer: str | None = None) -> None:
        details = {"field": field} if pointer is None else {"field": field, "pointer": pointer}
        super().__init__("TRIGGER_INVALID", message, details=details)


class TriggerUnauthorized(TriggerError):
    """The authorization snapshot does not bind the trigger, or the caller may not act for its requester."""

    def __init__(self, message: str) -> None:
        super().__init__("TRIGGER_UNAUTHORIZED", message)


class TriggerNotFound(TriggerError):
    """There is no such trigger in the namespace."""

    def __init__(self, trigger_id: str) -> None:
        super().__init__("TRIGGER_NOT_FOUND", f"there is no trigger {trigger_id}")


class TriggerConflict(TriggerError):
    """The trigger stands as it is against what was asked."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__("CONFLICT", message, details=details or None)


class ControlPlaneMismatch(TriggerError):
    """Store and control plane of a namespace do not belong together."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__("CONTROL_PLANE_MISMATCH", message, details=details or None)


class ReplayFailed(TriggerError):
    """The feed could not be read; nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__("TRIGGER_STATE_REPLAY_FAILED", message)


class TriggerStorageFailure(TriggerError):
    """The control plane's database could not be used; nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__("TRIGGER_STORAGE_FAILURE", message)
