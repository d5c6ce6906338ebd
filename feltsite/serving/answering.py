"""What of the server's way from a parsed request to its answer is worked out once, or in one go, instead of piecemeal.

What is let through, refused and sent is gunicorn's own; it is only found out more cheaply. Not here: the loop.
"""

import email.utils
import re
import time
from functools import lru_cache
from typing import Any

from gunicorn.http.message import TOKEN_RE
from gunicorn.http.wsgi import HEADER_VALUE_RE, Response, create
from gunicorn.http2.negotiation import peer_trusted_for_h2c
from gunicorn.util import close_graceful, hop_headers

_HEAD = re.compile(rf"(?:{TOKEN_RE.pattern}\n{HEADER_VALUE_RE.pattern}\n)*")
"""Names and values, each ended by what neither may hold."""


class Settled:
    """The server's configuration as plain attributes: some forty are read for each request.

    `trusted` tells of a peer that it may speak for others (`forwarded_allow_ips`): that is known when it connects.
    """

    def __init__(self, cfg: Any, *, trusted: bool) -> None:
        self._cfg = cfg
        for name in cfg.settings:
            setattr(self, name, getattr(cfg, name))
        self.is_ssl = cfg.is_ssl
        self.forwarded_allow_ips = ["*"] if trusted else []
        self.forwarded_allow_networks = list

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cfg, name)


class SettledFor:
    """Gives the configuration for a peer."""

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg
        self._settled = {trusted: Settled(cfg, trusted=trusted) for trusted in (True, False)}

    def __call__(self, peer: Any) -> Settled:
        return self._settled[peer_trusted_for_h2c(self._cfg, peer)]


class Answer(Response):  # type: ignore[misc]
    """The server's response, its header's lines checked together. Whatever is not plain is left to the base."""

    def process_headers(self, headers: list[tuple[str, str]]) -> None:
        """Take the lines of the header in. Raises as the base."""
        named = [name.lower() for name, _ in headers]
        text = "".join([name + "\n" + value + "\n" for name, value in headers])
        plain = text.count("\n") == 2 * len(headers) and _HEAD.fullmatch(text)
        if not plain or not hop_headers.isdisjoint(named):
            super().process_headers(headers)
            return
        self.headers += [(name, value.strip(" \t")) for name, value in headers]
        if "content-length" in named:
            self.response_length = int(self.headers[-named[::-1].index("content-length") - 1][1])


def answered(application: Any, req: Any, conn: Any, log: Any, *, keep: bool) -> bool:
    """Let the application answer a request. Tell whether the connection may be kept, which `keep` may rule out.

    As the base's `handle_request`, without its hooks and its log of each request. Raises StopIteration where an answer
    broke off: nothing more can be said on that connection.
    """
    answer = None
    try:
        answer, environ = create(req, conn.sock, conn.client, conn.server, conn.cfg, response_class=Answer)
        environ["wsgi.multithread"] = True
        if not keep:
            answer.force_close()
        pieces = application(environ, answer.start_response)
        try:
            for piece in pieces:
                answer.write(piece)
            answer.close()
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        return not answer.should_close()
    except OSError:
        raise
    except (Exception, SystemExit):
        if answer is None or not answer.headers_sent:
            raise
        log.exception("an answer broke off")
        close_graceful(conn.sock)
        raise StopIteration from None


def http_date(timestamp: float | None = None) -> str:
    """Return a date as HTTP writes it, now by default."""
    return _http_date(int(time.time() if timestamp is None else timestamp))


@lru_cache(maxsize=4)
def _http_date(second: int) -> str:
    return email.utils.formatdate(second, usegmt=True)
