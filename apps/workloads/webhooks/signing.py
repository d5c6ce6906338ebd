"""Secrets and signatures of webhooks, by Standard Webhooks 1.0 (symmetric, `v1`).

Every receiver of every namespace has a secret of its own, derived from the instance's and never stored:

    secret    = HMAC-SHA256(instance secret, "webhook:" namespace ":" origin)        shown as whsec_<base64>
    signature = base64(HMAC-SHA256(secret, id "." timestamp "." body))               sent as v1,<base64>

With several instance secrets (`FELTDB_WEBHOOK_SECRETS`, newest first) each signs, so that they can be exchanged one
by one: receivers accept any that fits.
"""

import base64
import hashlib
import hmac

from django.conf import settings

PREFIX = "whsec_"


def secrets_for(namespace: str, origin: str) -> list[str]:
    """Return the secrets of the receiver at `https://host:port`, newest first, as receivers configure them."""
    name = f"webhook:{namespace}:{origin}".encode()
    keys = [_hmac(master.encode(), name) for master in settings.WEBHOOK_SECRETS]
    return [PREFIX + base64.b64encode(key).decode() for key in keys]


def headers(namespace: str, origin: str, *, message_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """Return the three headers that sign a message."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp_s, body)
    signatures = [
        "v1," + base64.b64encode(_hmac(base64.b64decode(secret.removeprefix(PREFIX)), signed)).decode()
        for secret in secrets_for(namespace, origin)
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": " ".join(signatures),
    }


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()
