"""Marked secrets planted wherever a caller or an operator can put one: none is in the audit trail or its exports."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.keys import services, token
from apps.keys.audit.models import AuditEvent
from apps.keys.audit.services import record
from apps.keys.principal import operator
from tests.conftest import ApiClient

MARK = "PLANTEDPLANTED"


def marked(environment: str = "live") -> str:
    """Return a well-formed key whose secret carries the mark."""
    body = f"fdb_{environment}_{token.new_key_id()}_{MARK}{'x' * (43 - len(MARK))}"
    return body + token._check(body)


def test_no_planted_secret_is_in_the_trail_or_in_what_leaves_it(
    api: Callable[..., ApiClient], make_key: Callable[..., Any], transactional_db: None, client: Client
) -> None:
    auditor = api(make_key(namespaces=["*"]))
    secret = marked()
    planted: tuple[dict[str, str], ...] = (
        {"Authorization": f"Bearer {secret}"},
        {"Authorization": f"Basic {secret}"},
        {"Authorization": secret},
        {"Authorization": "Bearer " + secret[:60]},
        {"Cookie": f"sessionid={secret}"},
        {"X-Request-ID": secret},
        {"FeltDB-Namespace": secret},
        {"X-Forwarded-For": secret, "User-Agent": secret, "Referer": f"http://x/?token={secret}"},
    )
    for number, headers in enumerate(planted):
        path = f"/v1/keys/{secret}?key={secret}&password={MARK}"
        client.get(path, headers=headers, REMOTE_ADDR=f"192.0.2.{number}")
    weak = api(make_key(scopes=["state:read"]))
    weak.get(f"/v1/keys/{secret}")
    weak.post_json(f"/v1/grants/{secret}/revoke", {"reason": secret})
    issued = make_key(name=f"key {marked('test')}")
    services.revoke_key(issued.key.id, by=operator("ops"))
    record(operator(f"ops password={MARK}"), f"token={MARK}", target=f"secret: {MARK}", reason=f"Bearer {secret}")
    record(operator("ops"), "a.b", target="t", before={"password": MARK}, after={"secret": secret})

    rows = str(list(AuditEvent.objects.values()))
    assert AuditEvent.objects.count() >= 14
    assert MARK not in rows and issued.secret not in rows and "***" in rows
    for path in ("/v1/audit?limit=1000", "/v1/audit/export"):
        answer = auditor.get(path)
        text = (answer.getvalue() if answer.streaming else answer.content).decode()
        assert answer.status_code == 200 and MARK not in text


@pytest.mark.parametrize("where", ["path", "query"])
def test_an_encoded_secret_in_the_target_is_masked_too(where: str, client: Client, db: None) -> None:
    encoded = marked().replace("_", "%5F")
    client.get(f"/v1/grants/{encoded}" if where == "path" else f"/v1/grants?x={encoded}")
    assert MARK not in str(list(AuditEvent.objects.values()))
