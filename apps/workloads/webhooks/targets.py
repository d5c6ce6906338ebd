"""What a webhook may call: HTTPS on public addresses. Checked as it is written, and again for what it resolves to.

`settings.WEBHOOK_LOCAL_TARGETS` names exact `host:port` pairs that may be local; nothing else ever may.
"""

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from django.conf import settings

from apps.workloads import limits

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_PLAIN = re.compile(r"[!-~]+\Z")
_NUMBER = re.compile(r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)\Z")
_HOST_CHARS, _LABEL_CHARS = 253, 63  # RFC 1035
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")


class TargetRefused(Exception):
    """The target may not be called. The text says why; it holds no more of the address than its host."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that may be called as far as its writing tells."""

    url: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        """Return the part that secrets are made for."""
        return f"https://{self.host}:{self.port}"


def read(url: str) -> Target:
    """Return the target. Raises TargetRefused for what is no plain `https://host[:port]/...`."""
    if not _PLAIN.match(url) or len(url) > limits.MAX_URL_CHARS:
        raise TargetRefused(f"a URL is 1 to {limits.MAX_URL_CHARS} visible ASCII characters")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), 443 if parts.port is None else parts.port
    except ValueError as error:
        raise TargetRefused("the URL cannot be read") from error
    if parts.scheme != "https":
        raise TargetRefused("only https is called")
    if parts.username is not None or parts.password is not None:
        raise TargetRefused("a URL carries no user or password")
    if not port:
        raise TargetRefused("there is no port 0")
    if not host or "%" in host or "\\" in url or not _named(host):
        raise TargetRefused("the URL names no plain host")
    if _NUMBER.match(host.rstrip(".").rpartition(".")[2]) and ":" not in host:
        try:
            ipaddress.IPv4Address(host)
        except ValueError as error:
            raise TargetRefused(f"{host} is a number in disguise; write an IPv4 address in its plain form") from error
    return Target(url=url.partition("#")[0], host=host, port=port)


def _named(host: str) -> bool:
    """Tell whether it is an IPv6 address or of labels that the name system can ask for."""
    labels = host.removesuffix(".").split(".")
    return ":" in host or (len(host) <= _HOST_CHARS and all(0 < len(label) <= _LABEL_CHARS for label in labels))


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses to connect to. Raises TargetRefused where *any* of them is not public, OSError from the DNS.

    What is returned is what is connected to, so a name that resolves otherwise a moment later changes nothing.
    """
    found = dict.fromkeys(entry[4][0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    addresses = [str(address) for address in found]
    if f"{host}:{port}" not in settings.WEBHOOK_LOCAL_TARGETS:
        for address in addresses:
            if not is_public(ipaddress.ip_address(address.partition("%")[0])):
                raise TargetRefused(f"{host} is not a public address")
    return addresses


def is_public(address: Address) -> bool:
    """Tell whether the address is one of the Internet at large, looking through every form that embeds IPv4."""
    if isinstance(address, ipaddress.IPv6Address):
        embedded = _embedded(address)
        if embedded is not None:
            return is_public(embedded)
        if address in _COMPATIBLE or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
