"""`python -m tests.reference URL KEY`: whether the reference server itself answers as the rows say, request by request.

URL and KEY are those of a reference server with `--auth` and an empty data directory, KEY with every scope. Ends with 1
where an answer is not the row's. `--subject` walks one subject (each wants an empty server); `--show` prints answers.
"""

import argparse
import sys

import httpx

from tests.reference.exchanges import Answer, Exchange, apart, filled, keep
from tests.reference.rows import SUBJECTS


def main() -> int:
    """Walk the rows; return how many are not so, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.reference", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("key")
    parser.add_argument("--subject", choices=list(SUBJECTS), action="append")
    parser.add_argument("--show", action="store_true", help="print every answer")
    options = parser.parse_args()
    wrong = 0
    with httpx.Client(base_url=options.url, timeout=30, limits=httpx.Limits(max_keepalive_connections=0)) as client:
        bearer = {"Authorization": f"Bearer {options.key}"}
        asked = {"id": "reader", "namespace": "bench", "scopes": ["state:read", "events:read"]}
        made = client.post("/api/keys", json=asked, headers=bearer)
        made.raise_for_status()
        keys = {"all": options.key, "reader": made.json()["secret"]}
        for subject in options.subject or SUBJECTS:
            kept: dict[str, str] = {}
            for row in SUBJECTS[subject]:
                exchange = filled(row, kept)
                answer = asked_of(client, keys, exchange)
                keep(exchange, answer, kept)
                found = apart(exchange, answer)
                wrong += bool(found)
                if found or options.show:
                    print(f"{subject}: {exchange.says}: {exchange.send}\n   {answer.status} {answer.body[:600]!r}")
                for name, (row, came) in found.items():
                    print(f"   {name}: the row says {row!r}, the server {came!r}")
    print(f"{wrong} rows are not so")
    return 1 if wrong else 0


def asked_of(client: httpx.Client, keys: dict[str, str], exchange: Exchange) -> Answer:
    """Send the request; of a stream, read until a frame with data or a second of silence."""
    method, target = exchange.send.split(" ", 1)
    headers, raw = dict(exchange.headers), exchange.raw
    if raw is not None:
        headers.setdefault("Content-Type", "application/json")
    if exchange.key is not None:
        headers["Authorization"] = f"Bearer {keys[exchange.key]}"
    with client.stream(method, target, content=raw, headers=headers) as answer:
        body = b""
        for piece in answer.iter_bytes():
            body += piece
            if exchange.answer == "events" and b"data:" in body and body.endswith(b"\n\n"):
                break
        return Answer(status=answer.status_code, headers=dict(answer.headers), body=body)


if __name__ == "__main__":
    sys.exit(main())
