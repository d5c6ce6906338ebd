"""How this room's lists read `limit`."""

from collections.abc import Mapping

from apps.http.errors import ApiError
from apps.workloads import limits


def limit_of(parameters: Mapping[str, str]) -> int:
    """Return how many rows a page holds. Raises VALIDATION_ERROR."""
    given = parameters.get("limit")
    if given is None:
        return limits.DEFAULT_PAGE
    if not (given.isascii() and given.isdigit() and len(given) <= 6 and 1 <= int(given) <= limits.MAX_PAGE):
        raise invalid_parameter("limit", f"Must be a whole number from 1 to {limits.MAX_PAGE}.")
    return int(given)


def only_known(parameters: Mapping[str, str], *names: str) -> None:
    """Raise VALIDATION_ERROR for a query parameter that is none of these."""
    unknown = sorted(set(parameters) - set(names))
    if unknown:
        raise invalid_parameter(unknown[0], "There is no such query parameter here.")


def invalid_parameter(field: str, message: str) -> ApiError:
    """A query parameter does not fit."""
    return ApiError("VALIDATION_ERROR", message, details={"field": field})
