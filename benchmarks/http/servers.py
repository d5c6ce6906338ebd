"""The servers of the comparison, each a process group of its own over a directory of its own.

The reference server is run where FELTDB_REFERENCE_SERVER names its binary (crate feltdb-server 0.5.0, by cargo).
"""

import json
import os
import secrets
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.data import COLLECTION, record_id, value
from demo.instance import Instance, end, free_port

REFERENCE = "FELTDB_REFERENCE_SERVER"
LOADED_AT_ONCE = 500
IN_FLIGHT = "32"
"""Requests in flight that the servers take: none is refused where one process has all the clients."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a contestant's routes are: `prefix` before `/collections/...`, and the key they ask for, if any."""

    name: str
    url: str
    prefix: str
    key: str | None


class Felt:
    """FeltDB under gunicorn as it is served, with the bare views in the same processes."""

    def __init__(self, folder: Path, processes: int) -> None:
        settings = {"DJANGO_SETTINGS_MODULE": "benchmarks.http.beside_settings", "FELTDB_MAX_IN_FLIGHT": IN_FLIGHT}
        self.instance = Instance(folder, WEB_WORKERS=str(processes), ACCESS_LOG="false", **settings)

    def __enter__(self) -> "Felt":
        self.instance.__enter__()
        self.instance.start_server()
        self.key = self.instance.new_key("*")
        return self

    def __exit__(self, *exception: object) -> None:
        self.instance.stop()

    def targets(self) -> list[Target]:
        """Return FeltDB's own routes and the bare ones beside them."""
        url = self.instance.url
        return [
            Target(name="FeltDB", url=url, prefix="/v1", key=self.key),
            Target(name="DRF, same server", url=url, prefix="/drf", key=None),
            Target(name="Django, same server", url=url, prefix="/django", key=None),
        ]

    def load(self, records: int) -> None:
        """Store the records, and an index over what is asked for."""
        with self.instance.client(self.key) as client:
            index = f"/collections/{COLLECTION}/indexes/by-owner"
            client.put(index, json={"fields": ["owner"]}).raise_for_status()
            load(client, records)


class Bare:
    """The bare views under the same gunicorn configuration, without any middleware."""

    def __init__(self, folder: Path, processes: int) -> None:
        settings = {"DJANGO_SETTINGS_MODULE": "benchmarks.http.bare_settings", "FELTDB_MAX_IN_FLIGHT": IN_FLIGHT}
        self.instance = Instance(folder, WEB_WORKERS=str(processes), **settings)

    def __enter__(self) -> "Bare":
        self.instance.data_dir.mkdir(parents=True, exist_ok=True)
        self.instance.start_server(f"/django/collections/{COLLECTION}/0")
        return self

    def __exit__(self, *exception: object) -> None:
        self.instance.stop()

    def targets(self) -> list[Target]:
        """Return the bare routes."""
        url = self.instance.url
        return [
            Target(name="bare DRF", url=url, prefix="/drf", key=None),
            Target(name="bare Django", url=url, prefix="/django", key=None),
        ]


class Reference:
    """The reference server with `--auth`, and the same index in memory."""

    def __init__(self, folder: Path, binary: str) -> None:
        self.folder, self.binary, self.port = folder, binary, free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "Reference":
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "FELTDB_MASTER_KEY": secrets.token_hex(32),
            "FELTDB_SESSION_SECRET": secrets.token_hex(32),
            "FELTDB_EQUALITY_INDEXES": f"{COLLECTION}.owner",
        }
        keys = ["--keys", str(self.folder / "keys.json")]
        create = [self.binary, "keys", "create", *keys, "--name", "bench", "--namespace", "bench", "--scope", "*"]
        made = subprocess.run(create, env=environment, check=True, capture_output=True, text=True)
        self.key = (made.stdout + made.stderr).split()[-1]
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--data", str(self.folder / "feltdb.log")]
        with (self.folder / "server.log").open("wb") as log:
            command = [self.binary, *where, *keys, "--namespace", "bench", "--auth"]
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        for _ in range(200):
            try:
                httpx.get(f"{self.url}/health", timeout=5)
                return self
            except httpx.TransportError:
                time.sleep(0.05)
        raise RuntimeError(f"the reference server did not come up: {(self.folder / 'server.log').read_text()[-2000:]}")

    def __exit__(self, *exception: object) -> None:
        end(self.process, signal.SIGTERM)
        end(self.process, signal.SIGKILL)

    def targets(self) -> list[Target]:
        """Return its routes."""
        return [Target(name="Rust reference", url=self.url, prefix="-", key=self.key)]

    def load(self, records: int) -> None:
        """Store the records."""
        with httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=60) as client:
            load(client, records)


def load(client: httpx.Client, records: int) -> None:
    """Store the same records by transactions, as every client of either server does."""
    for first in range(0, records, LOADED_AT_ONCE):
        operations = [
            {
                "collection": COLLECTION,
                "id": record_id(n),
                "value": {name: each for name, each in value(n).items() if name != "id"},
            }
            for n in range(first, min(first + LOADED_AT_ONCE, records))
        ]
        body = json.dumps({"transactionId": f"load-{first}", "operations": operations})
        answer = client.post("/transactions", content=body, headers={"Content-Type": "application/json"})
        answer.raise_for_status()
