"""Webhooks against a real HTTPS server of this test: signatures, answers, silence, every way to be called inside."""

import http.server
import ipaddress
import json
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from io import StringIO

import httpcore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.core.management import call_command
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from apps.workloads import limits, services
from apps.workloads.capabilities import Cancelled, Failed
from apps.workloads.clock import now_ms
from apps.workloads.commands import RetryPolicy
from apps.workloads.models import Event, Result, Workload
from apps.workloads.webhooks import signing, targets
from apps.workloads.webhooks.program import retry_after_ms, webhook
from apps.workloads.webhooks.targets import TargetRefused
from apps.workloads.worker import Worker
from tests.workloads.conftest import NAMESPACE, state_of
from tests.workloads.test_worker import options

PUBLIC = "93.184.216.34"


class Ctx:
    """What the program needs to know of its work."""

    workload_id = "workload_000000000000000000000007"
    namespace = NAMESPACE

    def __init__(self, cancelled=False):
        self._cancelled = cancelled

    def cancelled(self):
        return self._cancelled


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for localhost that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName("hooks.test")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Receiver:
    """A server that answers by the path it is asked and remembers what it was told."""

    def __init__(self, certificate):
        self.taken = []
        self.redirect_to = ""
        self.release = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.taken.append((self.path, dict(self.headers.items()), body))
                receiver.answer(self)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # clients of these tests go away in the middle

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def url(self, path="/200"):
        return f"https://localhost:{self.port}{path}"

    def answer(self, handler):
        first = handler.path.split("/")[1]
        if first == "silent":
            self.release.wait(20)
            handler.close_connection = True
            return
        if first == "drip":
            handler.close_connection = True
            for each in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 2_000:
                if self.release.wait(0.05):
                    return
                handler.wfile.write(bytes([each]))
                handler.wfile.flush()
            return
        if first == "hangup":
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_response(int(first))
        if first in ("301", "302", "303", "307", "308"):
            handler.send_header("Location", self.redirect_to)
        if first in ("429", "503"):
            handler.send_header("Retry-After", handler.path.split("/")[2])
        handler.send_header("Content-Length", "9" if "slow-body" in handler.path else "2")
        handler.end_headers()
        if "slow-body" in handler.path:
            self.release.wait(20)
        handler.wfile.write(b"{}")

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver(certificate, settings, monkeypatch):
    """A receiver that may be called, trusted by its certificate."""
    made = Receiver(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    settings.WEBHOOK_LOCAL_TARGETS = [f"localhost:{made.port}"]
    settings.WEBHOOK_SECRETS = ["the instance's own secret, long enough"]
    yield made
    made.close()


@pytest.fixture
def resolving(monkeypatch):
    """A function that has names resolve to given addresses, and tells which were asked for."""
    asked = []

    def make(**addresses):
        def getaddrinfo(host, port, *args, **kwargs):
            asked.append(host)
            found = addresses.get(host.replace(".", "_"), [host])
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

        monkeypatch.setattr(targets.socket, "getaddrinfo", getaddrinfo)
        return asked

    return make


@pytest.fixture
def connecting(monkeypatch):
    """The addresses that connections were tried to; none is made."""
    tried = []

    def connect_tcp(self, host, port, *args, **kwargs):
        tried.append(host)
        raise httpcore.ConnectError("not in this test")

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect_tcp)
    return tried


def failing(input, *, kind):
    with pytest.raises(Failed) as failed:
        webhook(input, Ctx())
    assert failed.value.kind == kind, failed.value.message
    return failed.value


def test_a_message_is_signed_as_standard_webhooks_verifies_it(receiver):
    body = {"type": "order.paid", "data": {"total": 1.0, "name": "Åse"}}
    assert webhook({"url": receiver.url("/200/a?b=1"), "body": body}, Ctx()) == {
        "status": 200,
        "url": receiver.url("/200/a?b=1"),
    }
    [(path, headers, raw)] = receiver.taken
    [secret] = signing.secrets_for(NAMESPACE, f"https://localhost:{receiver.port}")
    assert Webhook(secret).verify(raw, headers) == body
    assert raw == '{"type":"order.paid","data":{"total":1.0,"name":"Åse"}}'.encode()
    assert path == "/200/a?b=1" and headers["Host"] == f"localhost:{receiver.port}"
    assert headers["webhook-id"] == Ctx.workload_id and headers["Content-Type"] == "application/json"
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(raw + b" ", headers)
    for other in (
        signing.secrets_for("other", f"https://localhost:{receiver.port}"),
        signing.secrets_for(NAMESPACE, "https://localhost:1"),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(other[0]).verify(raw, headers)


def test_while_secrets_are_exchanged_both_verify(receiver, settings):
    settings.WEBHOOK_SECRETS = ["the new one, long enough to be", "the old one, long enough to be"]
    webhook({"url": receiver.url(), "body": None}, Ctx())
    [(_, headers, raw)] = receiver.taken
    assert raw == b"null"
    for secret in signing.secrets_for(NAMESPACE, f"https://localhost:{receiver.port}"):
        assert Webhook(secret).verify(raw, headers) is None


def test_the_command_prints_the_secret_of_a_receiver(receiver):
    out = StringIO()
    call_command("webhook", "secret", receiver.url(), "--namespace", NAMESPACE, "--json", stdout=out)
    shown = json.loads(out.getvalue())
    assert shown["secrets"] == signing.secrets_for(NAMESPACE, f"https://localhost:{receiver.port}")
    with pytest.raises(SystemExit):
        call_command("webhook", "secret", "http://localhost/", stderr=StringIO())


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
def test_a_plain_refusal_is_not_tried_again(receiver, status):
    failure = failing({"url": receiver.url(f"/{status}")}, kind="webhook_rejected")
    assert failure.effect == "none" and str(status) in failure.message


@pytest.mark.parametrize("status", [408, 425, 500, 502, 504])
def test_a_server_in_trouble_is_tried_again(receiver, status):
    assert failing({"url": receiver.url(f"/{status}")}, kind="transient_connection").retry_after_ms is None


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(receiver, status):
    failure = failing({"url": receiver.url(f"/{status}/17")}, kind="transient_connection")
    assert failure.retry_after_ms == 17_000 and failure.effect == "none"


def test_retry_after_is_seconds_or_a_date_bounded_and_never_negative():
    now = 1_700_000_000_000
    at = datetime.fromtimestamp(now / 1000, tz=UTC)
    assert retry_after_ms("0", now) == 0 and retry_after_ms(" 5 ", now) == 5_000
    assert retry_after_ms(format_datetime(at + timedelta(seconds=90), usegmt=True), now) == 90_000
    assert retry_after_ms(format_datetime(at - timedelta(seconds=90), usegmt=True), now) == 0
    assert retry_after_ms("9" * 40, now) == limits.MAX_RETRY_AFTER_MS
    for nonsense in ("", "soon", "-1", "1.5", "²"):
        assert retry_after_ms(nonsense, now) is None


@pytest.mark.parametrize("path", ["/silent", "/drip"])
def test_silence_and_an_answer_that_drips_end_with_the_deadline_and_the_outcome_is_unknown(receiver, path):
    began = time.monotonic()
    failure = failing({"url": receiver.url(path), "timeout_ms": 500}, kind="transient_connection")
    assert failure.effect == "unknown" and time.monotonic() - began < 5


def test_an_answer_whose_body_never_ends_has_said_its_status(receiver):
    assert webhook({"url": receiver.url("/200/slow-body"), "timeout_ms": 5_000}, Ctx())["status"] == 200
    failing({"url": receiver.url("/500/slow-body"), "timeout_ms": 5_000}, kind="transient_connection")


def test_a_connection_that_ends_in_the_middle_has_an_unknown_outcome(receiver):
    assert failing({"url": receiver.url("/hangup")}, kind="transient_connection").effect == "unknown"


def test_where_nobody_listens_nothing_was_sent(receiver, settings):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        settings.WEBHOOK_LOCAL_TARGETS = [f"localhost:{taken.getsockname()[1]}"]
        url = f"https://localhost:{taken.getsockname()[1]}/"
        assert failing({"url": url}, kind="transient_connection").effect == "none"


def test_a_name_that_does_not_resolve_is_tried_again(monkeypatch):
    def nowhere(*args, **kwargs):
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(targets.socket, "getaddrinfo", nowhere)
    assert failing({"url": "https://hooks.test/"}, kind="transient_connection").effect == "none"


def test_a_certificate_nobody_vouches_for_is_refused(receiver, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    failure = failing({"url": receiver.url()}, kind="webhook_target_refused")
    assert "certificate" in failure.message.lower() and receiver.taken == []


def test_redirects_that_keep_the_method_are_followed_with_the_same_message(receiver):
    receiver.redirect_to = "/200/moved"
    for status in (307, 308):
        answer = webhook({"url": receiver.url(f"/{status}"), "body": 1}, Ctx())
        assert answer == {"status": 200, "url": receiver.url("/200/moved")}
    assert [path for path, _, _ in receiver.taken] == ["/307", "/200/moved", "/308", "/200/moved"]
    assert {raw for _, _, raw in receiver.taken} == {b"1"}


@pytest.mark.parametrize("status", [301, 302, 303])
def test_redirects_that_would_make_it_a_get_are_not_followed(receiver, status):
    receiver.redirect_to = "/200"
    failing({"url": receiver.url(f"/{status}")}, kind="webhook_rejected")
    assert len(receiver.taken) == 1


@pytest.mark.parametrize(
    "location",
    ["http://localhost/", "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest/meta-data/", "/307"],
)
def test_a_redirect_is_held_to_the_same_rules_and_ends(receiver, location):
    receiver.redirect_to = location
    failing({"url": receiver.url("/307")}, kind="webhook_target_refused")
    assert len(receiver.taken) <= 4


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


@pytest.mark.parametrize(
    "input",
    [None, [], {}, {"url": 1}, {"url": "https://hooks.test/", "headers": {}}]
    + [{"url": "https://hooks.test/", "timeout_ms": value} for value in (99, 120_001, True, 1.0, "1")],
)
def test_input_that_says_no_webhook_is_refused(input, connecting):
    failing(input, kind="invalid_input")
    assert connecting == []


def test_cancelled_work_sends_nothing(receiver):
    with pytest.raises(Cancelled):
        webhook({"url": receiver.url()}, Ctx(cancelled=True))
    assert receiver.taken == []


@pytest.mark.django_db(transaction=True)
def test_work_is_sent_again_under_the_same_id_no_sooner_than_it_was_asked_to(receiver, command):
    request = command(
        definition_id="webhook",
        input={"url": receiver.url("/503/60"), "body": 1},
        retry_policy=RetryPolicy(initial_delay_ms=0),
    )
    work = services.admit(request, now_ms=now_ms()).workload
    before = now_ms()
    assert Worker(options()).run_once() == 1
    row = Workload.objects.get(pk=work.pk)
    assert row.state == "READY" and row.eligible_at_ms >= before + 60_000
    assert Event.objects.get(workload=work, from_state="FAILED").evidence["delay_ms"] == 60_000
    services.cancel(NAMESPACE, work.workload_id, actor="tests", now_ms=now_ms())

    good = services.admit(
        command("k2", definition_id="webhook", input={"url": receiver.url(), "body": 1}), now_ms=now_ms()
    ).workload
    Worker(options()).run_once()
    assert state_of(good) == "SUCCEEDED" and Result.objects.get(workload=good).output["status"] == 200
    assert [headers["webhook-id"] for _, headers, _ in receiver.taken] == [work.workload_id, good.workload_id]
