"""A real HTTPS server of the tests, names that resolve as told, and connections that are only looked at."""

import http.server
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import httpcore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from apps.workloads.capabilities import Failed
from apps.workloads.webhooks import targets
from apps.workloads.webhooks.program import webhook
from tests.workloads.conftest import NAMESPACE

PUBLIC = "93.184.216.34"


class Ctx:
    """What the program needs to know of its work."""

    workload_id = "workload_000000000000000000000007"
    namespace = NAMESPACE
    traceparent = None

    def __init__(self, cancelled=False):
        self._cancelled = cancelled

    def cancelled(self):
        return self._cancelled


@pytest.fixture(autouse=True)
def _clock(db):
    """The one clock of work is the database's."""


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
