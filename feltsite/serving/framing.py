"""Tells when a whole request has come in, from its bytes alone. Pure.

It judges nothing: the server's own parser reads the bytes again and is the authority. Whatever cannot be followed here,
or is larger than may be gathered, counts as ready, so that the parser or the application refuses it.
"""

import re
from urllib.parse import unquote_to_bytes

MAX_HEAD_BYTES = 64 * 1024
"""Of request line and headers; the parser's own limits are below it."""

MAX_BODY_BYTES = 17 * 1024 * 1024
"""Of a gathered body: the largest a route takes, and its chunk sizes. A larger one is refused, or read by its route."""

_LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)", re.IGNORECASE)
_ENCODING = re.compile(rb"\r\ntransfer-encoding[ \t]*:[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect[ \t]*:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)
_CUT = re.compile(rb"[?#]")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\Z")
_MAX_CHUNK_LINE_BYTES = 8190
_MAX_TRAILER_BYTES = 64 * 1024


class Framing:
    """Follows one request through a growing buffer.

    After `ready` returned True: `whole` tells whether all of the request is in the buffer. `continues` is set once,
    where the client waits for "100 Continue" before it sends a body that will be gathered; the header is taken out.
    """

    __slots__ = ("_body_at", "_chunked", "_ends_at", "_looked", "continues", "whole")

    def __init__(self) -> None:
        self._looked = 0
        self._body_at = 0
        self._ends_at = -1
        self._chunked = False
        self.whole = False
        self.continues = False

    def ready(self, buffer: bytearray) -> bool:
        """Tell whether a thread should take over, given everything that has come in."""
        if not self._body_at and not self._head(buffer):
            return len(buffer) > MAX_HEAD_BYTES
        if self._chunked:
            return self._chunks(buffer)
        if self._ends_at < 0:
            return True
        self.whole = len(buffer) >= self._ends_at
        return self.whole

    def drop(self, buffer: bytearray) -> None:
        """Take the request, which is whole, off the front of the buffer."""
        del buffer[: self._ends_at]

    def _head(self, buffer: bytearray) -> bool:
        end = buffer.find(b"\r\n\r\n", max(0, self._looked - 3))
        self._looked = len(buffer)
        if end < 0:
            return False
        head = bytes(buffer[: end + 2])
        self._body_at = end + 4
        lengths, encodings = _LENGTH.findall(head), _ENCODING.findall(head)
        if encodings:
            self._chunked = not lengths and [each.lower() for each in encodings] == [b"chunked"]
            self._looked = self._body_at
        elif not lengths:
            self._ends_at = self._body_at
        elif len(lengths) == 1 and lengths[0].isdigit() and int(lengths[0][:20]) <= MAX_BODY_BYTES:
            self._ends_at = self._body_at + int(lengths[0])
        if (self._chunked or self._ends_at > len(buffer)) and _EXPECTS.search(head):
            self._take_out_expectation(buffer, head)
        return True

    def _take_out_expectation(self, buffer: bytearray, head: bytes) -> None:
        without = _EXPECTS.sub(b"", head)
        shorter = len(head) - len(without)
        buffer[: len(head)] = without
        self._body_at -= shorter
        self._looked = self._body_at
        if self._ends_at >= 0:
            self._ends_at -= shorter
        self.continues = True

    def _chunks(self, buffer: bytearray) -> bool:
        """Go from chunk to chunk; `_looked` is where the next size line begins."""
        while True:
            if self._looked - self._body_at > MAX_BODY_BYTES:
                return True
            end = buffer.find(b"\r\n", self._looked)
            if end < 0:
                return len(buffer) - self._looked > _MAX_CHUNK_LINE_BYTES
            size = _CHUNK_SIZE.match(bytes(buffer[self._looked : end]))
            if size is None:
                return True
            if int(size[1], 16) == 0:
                return self._trailers(buffer, end)
            self._looked = end + 2 + int(size[1], 16) + 2
            if self._looked > len(buffer):
                # Until the chunk is in, its size line is read again at each look: the cheapest way to resume.
                resume, self._looked = self._looked, end - len(size[0])
                return resume - self._body_at > MAX_BODY_BYTES

    def _trailers(self, buffer: bytearray, line_end: int) -> bool:
        end = line_end if buffer.startswith(b"\r\n", line_end + 2) else buffer.find(b"\r\n\r\n", line_end)
        if end >= 0:
            self._ends_at = end + 4
            self.whole = True
        return self.whole or len(buffer) - line_end > _MAX_TRAILER_BYTES


def target(buffer: bytearray) -> tuple[bytes, bytes]:
    """Return method and path of the request line; both empty where there is none.

    The path is as the application will see it, however it is spelled: from an absolute target, unescaped, without query
    or fragment. Else a spelling would choose the threads.
    """
    line = bytes(buffer[: buffer.find(b"\r\n")])
    parts = line.split(b" ", 2)
    if len(parts) != 3:
        return b"", b""
    path = _CUT.split(parts[1], maxsplit=1)[0]
    if not path.startswith(b"/"):
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return parts[0], unquote_to_bytes(path)
