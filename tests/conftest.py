"""Fixtures for every room: a namespace, keys, and a client that speaks JSON with a key.

def test_something(api, make_key):
    client = api(make_key(scopes=["state:read"]))
    answer = client.get("/v1/collections")
    assert answer.status_code == 200 and answer.json() == {...}
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.signals import request_finished
from django.db import close_old_connections
from django.test import Client

NAMESPACE = "test"

logging.getLogger("httpx").setLevel(logging.WARNING)  # tests send thousands of requests: a line for each hides the rest


_streams: list[Any] = []
"""Streamed answers that the test at hand was given: what it does not read to the end is given up when it ends."""


class ApiClient(Client):
    """Django's test client with a key, a namespace header and JSON bodies. Server errors come back as answers."""

    def __init__(self, secret: str | None, namespace: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        if namespace:
            headers["FeltDB-Namespace"] = namespace
        super().__init__(headers=headers, raise_request_exception=False)

    def generic(self, method: str, path: str, *args: Any, **extra: Any) -> Any:
        """Send the request; the raw target comes along, as gunicorn gives it."""
        answer = super().generic(method, path, *args, **{"RAW_URI": path, **extra})
        if getattr(answer, "streaming", False):
            _streams.append(answer)
        return answer

    def call(self, method: str, path: str, body: Any = None, **extra: Any) -> Any:
        """Send `body` as compact JSON (bytes go as they are); no body at all when None."""
        raw = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        content_type = extra.pop("content_type", "application/json")
        return self.generic(method, path, raw, content_type=content_type, **extra)

    def post_json(self, path: str, body: Any = None, **extra: Any) -> Any:
        """POST `body`."""
        return self.call("POST", path, body, **extra)

    def put_json(self, path: str, body: Any = None, **extra: Any) -> Any:
        """PUT `body`."""
        return self.call("PUT", path, body, **extra)

    def patch_json(self, path: str, body: Any = None, **extra: Any) -> Any:
        """PATCH `body`."""
        return self.call("PATCH", path, body, **extra)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Give up the streams that a test left open, while it still may use the database."""
    request_finished.disconnect(close_old_connections)  # the end of a stream ends no test's connection
    while _streams:
        _streams.pop().close()
    request_finished.connect(close_old_connections)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """Keys verified and namespaces seen in one test mean nothing in the next."""
    from apps.keys import bookkeeping, permissions, verify
    from apps.keys.grants import standing
    from apps.operations.services import health

    verify.forget_all()
    bookkeeping.forget_all()
    permissions.forget_all()
    standing.forget_all()
    health.forget()
    yield


@pytest.fixture(autouse=True)
def _one_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's process is the only one that knows its keys: leases on a shared database last, and nobody waits for any.

    So statements can be counted. Leases themselves: `tests/keys/test_trust.py`, `tests/keys/test_revocation.py`.
    """
    from apps.keys import trust

    monkeypatch.setattr(trust, "lease", trust.Lease(lambda: 0, clock_ns=lambda: 0))
    monkeypatch.setattr(trust, "OUTLIVE_MS", 0)


@pytest.fixture
def data_dir(tmp_path: Path, settings: Any) -> Iterator[Path]:
    """A data directory of the test's own as `settings.DATA_DIR`; stores opened in it are closed at the end."""
    from apps.state import stores

    settings.DATA_DIR = tmp_path
    yield tmp_path
    stores.close_all()


@pytest.fixture
def namespace(db: None) -> str:
    """The name of a namespace that exists."""
    from apps.keys.services import ensure_namespace

    return ensure_namespace(NAMESPACE).name


@pytest.fixture
def make_key(namespace: str) -> Callable[..., Any]:
    """A function that issues a key: `make_key(scopes=["state:read"], worker_id=..., namespaces=[...], ...)`.

    Returns `IssuedKey(key, secret)`. Scopes default to `*`, the namespace to the test's own.
    """
    from apps.keys.principal import operator
    from apps.keys.services import issue_key

    def make(*, scopes: list[str] | None = None, namespaces: list[str] | None = None, **members: Any) -> Any:
        return issue_key(
            name=members.pop("name", "test key"),
            scopes=["*"] if scopes is None else scopes,
            namespaces=[namespace] if namespaces is None else namespaces,
            issuer=members.pop("issuer", operator("tests")),
            **members,
        )

    return make


@pytest.fixture
def api(make_key: Callable[..., Any]) -> Callable[..., ApiClient]:
    """A function that gives a client: `api()` holds every scope, `api(key)` that key, `api(None)` none."""

    def client(key: Any = ..., *, namespace: str | None = None) -> ApiClient:
        issued = make_key() if key is ... else key
        secret = issued if issued is None or isinstance(issued, str) else issued.secret
        return ApiClient(secret, namespace)

    return client
