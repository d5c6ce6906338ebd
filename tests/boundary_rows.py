"""One row for every `/v1` route and method, so that no door is left unwatched.

`tests/keys/test_boundary.py` walks the URL map and fails for a route and method without a row here; for each row it
sends the wrong keys and expects the right refusal. Whoever adds a route adds its row to that room's list:

    Row("POST", "/v1/workloads/w1/start", scope="workload:execute", body={...}, worker="w1-worker")

- `path` is a real path of the route (any ids; refusals come before anything is looked up);
- `scope` is the scope the method needs, None where any valid key will do, `PUBLIC` where no key is needed;
- `body` is a body the route accepts, so that only the key is wrong;
- `namespaced=False` where the route belongs to no namespace;
- `worker` names the worker that path and body speak for, on worker routes: a key of any other worker, and any
  key that is no worker, must be refused.
"""

from dataclasses import dataclass
from typing import Any

PUBLIC = "public"


@dataclass(frozen=True, slots=True)
class Row:
    """One method of one route; see the module's text."""

    method: str
    path: str
    scope: str | None
    body: Any = None
    namespaced: bool = True
    worker: str | None = None


KEYS: list[Row] = [
    Row("GET", "/v1/keys/current", scope=None, namespaced=False),
]

STATE: list[Row] = []

WORKLOADS: list[Row] = []

TRIGGERS: list[Row] = []

OPERATIONS: list[Row] = []

ROWS: list[Row] = [*KEYS, *STATE, *WORKLOADS, *TRIGGERS, *OPERATIONS]
