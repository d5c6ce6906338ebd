"""Which addresses a webhook may call: none inside, in whatever form, on whatever hop."""

import ipaddress
import socket

import pytest

from apps.workloads import limits
from apps.workloads.webhooks import targets
from apps.workloads.webhooks.program import webhook
from apps.workloads.webhooks.targets import TargetRefused
from tests.workloads.webhooks.conftest import PUBLIC, Ctx, failing

LOCAL = [
    "127.0.0.1",
    "127.1.2.3",
    "0.0.0.0",  # noqa: S104 - a target, nothing listens there
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
]


@pytest.mark.parametrize("address", LOCAL)
def test_no_local_address_is_public_in_whatever_form(address):
    assert not targets.is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are(address):
    assert targets.is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.test/",
        "ftp://hooks.test/",
        "//hooks.test/",
        "hooks.test",
        "https://",
        "https:///path",
        "https://user@hooks.test/",
        "https://user:word@hooks.test/",
        "https://hooks.test:99999/",
        "https://hooks.test:port/",
        "https://hooks.test:0/",
        "https://hooks..test/",
        "https://.hooks.test/",
        "https://" + "a" * 64 + ".test/",
        "https://" + "a." * 125 + "test/",
        "https://hooks.test\\@127.0.0.1/",
        "https://hooks .test/",
        "https://hooks.test/\r\nX: y",
        "https://höoks.test/",
        "https://[fe80::1%25eth0]/",
        # Numbers in disguise: decimal, octal, hexadecimal, short forms of 127.0.0.1 and of a public address.
        "https://2130706433/",
        "https://017700000001/",
        "https://0x7f000001/",
        "https://0x7f.0.0.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://127.0.1/",
        "https://134744072/",
        "https://127.0.0.1./",
        "https://0x/",
        "https://1.2.3.4.5/",
        "https://hooks.test/" + "x" * limits.MAX_URL_CHARS,
    ],
)
def test_what_is_no_plain_https_url_is_refused_as_it_is_written(url, resolving, connecting):
    asked = resolving()
    failing({"url": url}, kind="webhook_target_refused")
    assert asked == [] and connecting == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "169.254.169.254", "localhost", "10.1.2.3"]
)
def test_local_targets_are_refused_when_connecting(host, connecting):
    failing({"url": f"https://{host}/"}, kind="webhook_target_refused")
    assert connecting == []


def test_a_name_with_any_local_address_is_refused(resolving, connecting):
    resolving(hooks_test=[PUBLIC, "127.0.0.1"])
    failing({"url": "https://hooks.test/"}, kind="webhook_target_refused")
    assert connecting == []


def test_the_address_connected_to_is_the_one_that_was_checked(monkeypatch, connecting):
    """DNS rebinding: the name is public when it is checked and local whenever it is asked again."""
    answers = iter([PUBLIC])

    def getaddrinfo(host, port, *args, **kwargs):
        address = next(answers, "127.0.0.1") if host == "hooks.test" else host
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(targets.socket, "getaddrinfo", getaddrinfo)
    failing({"url": "https://hooks.test/"}, kind="transient_connection")
    assert connecting == [PUBLIC], "a number, asked of no DNS again"


def test_a_local_target_is_allowed_by_its_exact_host_and_port_only(receiver, settings):
    webhook({"url": receiver.url()}, Ctx())
    for listed in (f"127.0.0.1:{receiver.port}", "localhost:443", "localhost", "*"):
        settings.WEBHOOK_LOCAL_TARGETS = [listed]
        failing({"url": receiver.url()}, kind="webhook_target_refused")
    assert len(receiver.taken) == 1


def test_a_url_keeps_no_fragment_and_an_origin_names_its_port():
    read = targets.read("https://Hooks.Test/a?b#c")
    assert (read.url, read.host, read.origin) == ("https://Hooks.Test/a?b", "hooks.test", "https://hooks.test:443")
    with pytest.raises(TargetRefused):
        targets.read("")
