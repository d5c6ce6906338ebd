"""`FeltDB-Numbers: string`: integers that a double would round go out as strings, where numbers are doubles.

Without the header every number goes out exactly, as JSON has it. Numbers with a fraction are doubles already.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.http import strict_json
from apps.http.errors import ApiError

EXACT_IN_A_DOUBLE = 2**53 - 1
"""JavaScript's MAX_SAFE_INTEGER: up to here, below and above zero, every integer is a double of its own."""

_CHOICES = ("string", "number")


def asked(request: HttpRequest) -> bool:
    """Tell whether the caller wants strings. Raises VALIDATION_ERROR for a value that is neither string nor number."""
    given = request.META.get("HTTP_FELTDB_NUMBERS")
    if given is None:
        return False
    if given not in _CHOICES:
        raise ApiError(
            "VALIDATION_ERROR", "FeltDB-Numbers is 'string' or 'number'.", details={"field": "FeltDB-Numbers"}
        )
    return bool(given == "string")


def as_strings(answer: HttpResponseBase) -> HttpResponseBase:
    """Return the answer with its large integers as strings; one that is no JSON document is left as it is."""
    if not isinstance(answer, HttpResponse):
        return answer
    if answer.content and answer.headers.get("Content-Type", "").startswith("application/json"):
        answer.content = strict_json.dumps(converted(strict_json.loads(answer.content, max_depth=1000)))
        if "Content-Length" in answer.headers:
            answer.headers["Content-Length"] = str(len(answer.content))
    return answer


def converted(value: Any) -> Any:
    """Return the JSON value with its large integers as strings."""
    if type(value) is dict:
        return {name: converted(member) for name, member in value.items()}
    if type(value) is list:
        return [converted(member) for member in value]
    if type(value) is int and not -EXACT_IN_A_DOUBLE <= value <= EXACT_IN_A_DOUBLE:
        return str(value)
    return value
