"""One POST to an address that was checked, within one deadline, along at most a few redirects. No secret in here.

The network below httpcore is ours: a connection goes to the very address that `targets.resolve` has checked, on every
hop, while TLS and the Host header keep the name. The answer's body is never read: the status tells all.
"""

import functools
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import certifi
import httpcore
from httpcore import SOCKET_OPTION, NetworkBackend, NetworkStream

from apps.workloads.webhooks import targets
from apps.workloads.webhooks.targets import Target, TargetRefused

MAX_REDIRECTS = 3
REDIRECTS = frozenset({307, 308})
"""Redirects that keep the method; others would turn the POST into a GET and are not followed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: status, the wait it asked for as it was written, and where in the end it came from."""

    status: int
    retry_after: str
    url: str


class NotSent(Exception):
    """Nothing was sent: no name, no route, no TLS. Trying again later may help."""


class OutcomeUnknown(Exception):
    """The request may have been taken: it was sent in part or whole, and no status came back in time."""


def post(target: Target, content: bytes, headers: Mapping[str, str], *, timeout_s: float) -> Answer:
    """POST and follow redirects that keep the method. Raises TargetRefused, NotSent, OutcomeUnknown."""
    until = time.monotonic() + timeout_s
    for _ in range(MAX_REDIRECTS + 1):
        status, answered = _once(target, content, headers, until)
        location = answered.get("location")
        if status not in REDIRECTS or location is None:
            return Answer(status, answered.get("retry-after", ""), target.url)
        target = targets.read(urljoin(target.url, location))
    raise TargetRefused(f"more than {MAX_REDIRECTS} redirects")


def _once(target: Target, content: bytes, headers: Mapping[str, str], until: float) -> tuple[int, dict[str, str]]:
    backend = _CheckedBackend(until)
    origin = httpcore.URL(target.url).origin
    try:
        with httpcore.HTTPConnection(origin, ssl_context=_trust(), network_backend=backend) as connection:
            with connection.stream("POST", target.url, headers=list(headers.items()), content=content) as answer:
                told = {name.decode().lower(): value.decode("latin-1") for name, value in answer.headers}
                return answer.status, told
    except ssl.SSLCertVerificationError as error:
        raise TargetRefused(f"{target.host}: {error.verify_message}") from error
    except (httpcore.ConnectError, httpcore.ConnectTimeout, OSError) as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            raise TargetRefused(f"{target.host}: {error.__cause__.verify_message}") from error
        if backend.connected:
            raise OutcomeUnknown(f"{target.host}: {_said(error)}") from error
        raise NotSent(f"{target.host}: {_said(error)}") from error
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        raise OutcomeUnknown(f"{target.host}: {_said(error)}") from error


def _said(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()[:200]


@functools.lru_cache(maxsize=4)
def _context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    if ca_file is None:
        context.load_verify_locations(certifi.where())
    return context


def _trust() -> ssl.SSLContext:
    """Return whom to trust: SSL_CERT_FILE where it is set, else the system's authorities and certifi's."""
    return _context(os.environ.get("SSL_CERT_FILE") or None)


class _CheckedBackend(NetworkBackend):
    """Connects to checked addresses only, and lets nothing last beyond the deadline."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._plain = httpcore.SyncBackend()
        self.connected = False

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> NetworkStream:
        """Connect to the first address that answers."""
        failure: Exception = httpcore.ConnectError("no address")
        for address in targets.resolve(host, port):
            try:
                stream = self._plain.connect_tcp(address, port, _left(self._until), local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            return _TimedStream(stream, self._until, self)
        raise failure


class _TimedStream(NetworkStream):
    """A stream whose every step ends with the deadline, however slowly the other side drips."""

    def __init__(self, stream: NetworkStream, until: float, backend: _CheckedBackend) -> None:
        self._stream = stream
        self._until = until
        self._backend = backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read some."""
        return self._stream.read(max_bytes, _left(self._until))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all; from the first byte on the other side may have taken it."""
        self._backend.connected = True
        self._stream.write(buffer, _left(self._until))

    def close(self) -> None:
        """Close."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> NetworkStream:
        """Begin TLS for the name, not the address."""
        stream = self._stream.start_tls(ssl_context, server_hostname, _left(self._until))
        return _TimedStream(stream, self._until, self._backend)

    def get_extra_info(self, info: str) -> Any:
        """Tell what httpcore asks of the stream."""
        return self._stream.get_extra_info(info)


def _left(until: float) -> float:
    """Return the seconds left. Raises httpcore.ReadTimeout where there are none."""
    left = until - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the deadline has passed")
    return left
