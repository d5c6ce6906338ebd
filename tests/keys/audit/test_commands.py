"""`manage.py audit` and `manage.py grants`."""

import json
import stat
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.keys.audit.models import AuditEvent
from apps.keys.audit.services import record
from apps.keys.grants import keyring, services
from apps.keys.principal import operator
from apps.keys.verify import principal_for

DAY_MS = 86_400_000


def run(*arguments: str) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, standard output and standard error."""
    out, err = StringIO(), StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.fixture
def events(db: None) -> int:
    """Three events: today's, one of ten days ago, one of 500; returns this instant."""
    now_ms = time.time_ns() // 1_000_000
    for days in (500, 10, 0):
        record(operator("ops"), f"days.{days}", target="it", at_ms=now_ms - days * DAY_MS)
    return now_ms


def test_export_writes_one_event_a_line_and_leaves_an_event_itself(events: int) -> None:
    code, out, err = run("audit", "export", "--newer-than", "30d")
    assert (code, [json.loads(line)["action"] for line in out.splitlines()]) == (0, ["days.10", "days.0"])
    assert err == "2 events\n"
    assert AuditEvent.objects.filter(action="audit.exported", subject="human:command-line").count() == 1


def test_export_into_a_file_makes_it_private_and_never_overwrites(events: int, tmp_path: Path) -> None:
    path = tmp_path / "audit.ndjson"
    assert run("audit", "export", "--output", str(path))[0] == 0
    assert len(path.read_text().splitlines()) == 3 and stat.S_IMODE(path.stat().st_mode) == 0o600
    code, _, err = run("audit", "export", "--output", str(path))
    assert code == 1 and "never overwrites" in err


def test_prune_keeps_what_the_policy_says_and_never_less_than_a_day(events: int, settings: Any) -> None:
    assert json.loads(run("audit", "prune", "--json")[1]) == {"removed": 1}
    assert json.loads(run("audit", "prune", "--older-than", "9d", "--json")[1]) == {"removed": 1}
    code, _, err = run("audit", "prune", "--older-than", "23h")
    assert code == 1 and "at least one day" in err
    assert AuditEvent.objects.filter(action="days.0").exists()


def test_grants_are_listed_shown_and_revoked(make_key: Callable[..., Any], namespace: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    signed = services.issue_for(principal_for(make_key().key), tenant_id=namespace, application_id="app", now_ms=now_ms)
    where = ("--namespace", namespace)
    assert json.loads(run("grants", "list", *where, "--json")[1])["grants"] == [signed.wire()]
    assert json.loads(run("grants", "show", signed.grant.id, *where, "--json")[1]) == signed.wire()
    assert "it holds" in run("grants", "show", signed.grant.id, *where)[1]
    code, out, _ = run("grants", "revoke", signed.grant.id, *where, "--reason", "over", "--json")
    assert (code, json.loads(out)["grant"]["status"]) == (0, "REVOKED")
    assert "dead: the grant is revoked" in run("grants", "show", signed.grant.id, *where)[1]
    assert json.loads(run("grants", "list", *where, "--json")[1])["grants"] == []
    assert "revoked" in run("grants", "list", *where, "--all")[1]
    code, out, err = run("grants", "show", "nothing", *where)
    assert (code, out, err) == (1, "", "error: there is no such grant\n")


def test_the_signing_key_is_rotated_and_dropped_and_both_leave_events(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring_file = keyring.KeyRingFile(tmp_path / "grant_keys.json")
    monkeypatch.setattr(keyring, "shared_file", lambda: ring_file)
    old = json.loads(run("grants", "keys", "--json")[1])["key_id"]
    assert run("grants", "drop-key", old)[0] == 1
    rotated = json.loads(run("grants", "rotate-key", "--json")[1])
    assert rotated["key_id"] != old and [key["key_id"] for key in rotated["keys"]] == [rotated["key_id"], old]
    dropped = json.loads(run("grants", "drop-key", old, "--json")[1])
    assert [key["key_id"] for key in dropped["keys"]] == [rotated["key_id"]]
    actions = list(AuditEvent.objects.order_by("id").values_list("action", "target"))
    assert actions == [("grant_key.rotated", rotated["key_id"]), ("grant_key.dropped", old)]
    assert "seed" not in run("grants", "keys")[1] + run("grants", "keys", "--json")[1]


def test_a_ring_from_the_environment_is_not_changed_by_a_command(db: None, settings: Any) -> None:
    settings.GRANT_KEYS = "07" * 32
    assert "signs" in run("grants", "keys")[1]
    for command in (("rotate-key",), ("drop-key", "x")):
        code, _, err = run("grants", *command)
        assert code == 1 and "FELTDB_GRANT_KEYS" in err
