"""How the clients of the proof ask: over HTTP, again and again until there is an answer, as one does that lost one."""

import os
import time
from typing import Any

import httpx


def client(key: str) -> httpx.Client:
    """Return a client that carries the key."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=os.environ["CHAOS_URL"], headers=headers, timeout=30)


def until_answered(http: httpx.Client, path: str, body: dict[str, Any]) -> httpx.Response:
    """POST until the server answers something other than "not now"."""
    while True:
        try:
            answer = http.post(path, json=body)
        except httpx.TransportError:
            time.sleep(0.2)
            continue
        if answer.status_code not in (429, 503):
            return answer
        time.sleep(0.2)
