"""JSON in: the media type judged, the body read up to its limit and not a byte further, then parsed strictly."""

from collections.abc import Iterator, Mapping
from typing import IO, Any

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from rest_framework.parsers import BaseParser

from apps.http import strict_json
from apps.http.errors import ApiError
from apps.http.limits import MAX_BODY_BYTES

MERGE_PATCH = "application/merge-patch+json"
"""What RFC 7396 calls the body of a PATCH; it is JSON like any other, and may be called that too."""


class StrictJSONParser(BaseParser):
    """For plain DRF views; the limit is the view's `max_body_bytes`."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the body's value. Raises ApiError: JSON_INVALID, JSON_TOO_DEEP, 413, 415."""
        context = parser_context or {}
        request = context["request"]._request
        limit = getattr(context.get("view"), "max_body_bytes", MAX_BODY_BYTES)
        return strict_json.loads(read_body(request, max_bytes=limit))


def read_json(request: HttpRequest, *, max_bytes: int) -> Any:
    """Return the value of the request's body. Raises ApiError: JSON_INVALID, JSON_TOO_DEEP, 413, 415."""
    return strict_json.loads(read_body(request, max_bytes=max_bytes))


def read_body(request: HttpRequest, *, max_bytes: int, media_type: str = "application/json") -> bytes:
    """Return the raw body. Raises ApiError 415 for another media type or any encoding, 413 beyond `max_bytes`.

    A body announced too large is not read at all; one that comes in chunks is read to one byte beyond the limit.
    No body is an empty one, whatever its media type would have been.
    """
    announced = request.META.get("CONTENT_LENGTH") or "0"
    length = int(announced) if announced.isascii() and announced.isdigit() else 0
    chunked = "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower()
    if not length and not chunked:
        return b""
    _check_media_type(request, media_type)
    if length > max_bytes:
        raise _too_large(max_bytes)
    try:
        raw = _read_at_most(_chunked_stream(request), max_bytes + 1) if chunked else request.read(length)
    except Exception as error:  # each server has its own for a connection that ends or chunks that are none
        raise _broken_off() from error
    if len(raw) > max_bytes:
        raise _too_large(max_bytes)
    if len(raw) < length:
        raise _broken_off()
    return raw


class BodyLines:
    """The lines of a body of any length, as they come in, without their ends; at most `max_line_bytes` each.

    Raises ApiError 415 at once; 413 for a longer line and JSON_INVALID for a body that breaks off while iterated.
    """

    def __init__(self, request: HttpRequest, *, media_type: str, max_line_bytes: int) -> None:
        announced = request.META.get("CONTENT_LENGTH") or "0"
        self._left = int(announced) if announced.isascii() and announced.isdigit() else 0
        self._chunked = "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower()
        _check_media_type(request, media_type)
        self._stream: Any = _chunked_stream(request) if self._chunked else request
        self._max_line_bytes = max_line_bytes
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        while piece := self._piece():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield self._checked(line)
            self._checked(rest)
        if rest:
            yield rest

    def drain(self, max_bytes: int) -> None:
        """Read on and forget, so that a client that sends before it reads gets to read; what goes wrong ends it."""
        try:
            while max_bytes > 0 and (piece := self._piece()):
                max_bytes -= len(piece)
        except ApiError:
            return

    def _checked(self, line: bytes) -> bytes:
        if len(line) > self._max_line_bytes:
            raise ApiError(
                "BODY_TOO_LARGE",
                f"A line is larger than {self._max_line_bytes} bytes.",
                details={"max_line_bytes": self._max_line_bytes},
            )
        return line

    def _piece(self) -> bytes:
        if self._ended or (not self._chunked and not self._left):
            return b""
        try:
            piece: bytes = self._stream.read(65536 if self._chunked else min(65536, self._left))
        except Exception as error:  # each server has its own for a connection that ends or chunks that are none
            self._ended = True
            raise _broken_off() from error
        self._ended = not piece
        self._left -= len(piece)
        if not piece and self._left > 0:
            raise _broken_off()
        return piece


def _check_media_type(request: HttpRequest, media_type: str) -> None:
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "").strip()
    if encoding:
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", "Send the body without a Content-Encoding.")
    given = (request.META.get("CONTENT_TYPE") or "").partition(";")
    named = given[0].strip().lower()
    if named != media_type and not (request.method == "PATCH" and named == MERGE_PATCH):
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", f"Send the body as Content-Type: {media_type}.")
    charset = given[2].replace(" ", "").replace('"', "").lower()
    if charset not in ("", "charset=utf-8", "charset=utf8"):
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", f"Send the body as {media_type} in UTF-8, without other parameters.")


def _chunked_stream(request: HttpRequest) -> Any:
    """Return the stream of a chunked body: Django's own ends at once where no length was announced."""
    if isinstance(request, WSGIRequest) and request.environ.get("wsgi.input_terminated"):
        return request.environ["wsgi.input"]
    return request


def _read_at_most(stream: Any, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    room = max_bytes
    while room > 0:
        piece = stream.read(min(room, 65536))
        if not piece:
            break
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)


def _broken_off() -> ApiError:
    return ApiError("JSON_INVALID", "The body broke off before its end.")


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(
        "BODY_TOO_LARGE", f"The body is larger than {max_bytes} bytes.", details={"max_body_bytes": max_bytes}
    )
