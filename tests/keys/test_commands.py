"""`manage.py keys`: what it prints, where, and how it ends."""

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from apps.keys import reading, services, verify
from apps.keys.models import ApiKey

pytestmark = pytest.mark.django_db


def keys(*arguments: str) -> tuple[str, str]:
    """Run the command; give its standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    call_command("keys", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def ended(*arguments: str) -> tuple[int | str | None, str, str]:
    """Run the command that must fail; give its exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as caught:
        call_command("keys", *arguments, stdout=out, stderr=err)
    return caught.value.code, out.getvalue(), err.getvalue()


def create(*arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(keys("create", "--name", "k", *arguments, "--json")[0])
    return document


def test_create_prints_one_document_of_the_stated_shape() -> None:
    made = create("--scope", "state:read,state:write", "--scope", "events:read", "--namespace", "a,b", "--worker", "w1")
    assert list(made) == ["id", "secret", "name", "namespaces", "scopes", "worker_id", "expires_at_ms"]
    assert made["scopes"] == ["events:read", "state:read", "state:write"]
    assert (made["namespaces"], made["worker_id"], made["expires_at_ms"]) == (["a", "b"], "w1", None)
    assert verify.principal_of(made["secret"], now=services.utc_now()) is not None
    assert ApiKey.objects.get(pk=made["id"]).created_by == "human:command-line"


def test_create_names_the_default_namespace_and_shows_the_secret_once() -> None:
    out, err = keys("create", "--name", "k", "--scope", "state:read")
    key = ApiKey.objects.get()
    assert key.namespaces == ["default"] and err == ""
    assert out.count("fdb_live_") == 1 and "only time" in out
    for arguments in (["show", key.id], ["show", key.id, "--json"], ["list"], ["list", "--json"], ["revoke", key.id]):
        assert "fdb_" not in "".join(keys(*arguments))


@pytest.mark.parametrize(("text", "seconds"), [("45s", 45), ("30m", 1800), ("12h", 43200), ("90d", 7776000)])
def test_expiry_by_duration(text: str, seconds: int) -> None:
    before = verify.milliseconds(services.utc_now())
    ends = create("--scope", "state:read", "--expires-in", text)["expires_at_ms"]
    assert 0 <= ends - before - seconds * 1000 < 60_000


def test_expiry_by_instant() -> None:
    made = create("--scope", "state:read", "--expires-at", "2999-01-01T02:00:00+02:00")
    assert made["expires_at_ms"] == 32_472_144_000_000


def test_a_secret_file_is_private_and_the_secret_goes_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = create("--scope", "state:read", "--secret-file", str(path))
    assert made["secret"] is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    principal = verify.principal_of(path.read_text().strip(), now=services.utc_now())
    assert principal is not None and principal.key_id == made["id"]


def test_a_secret_file_never_overwrites_and_no_key_is_made(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for path in (taken, tmp_path / "link", tmp_path / "none" / "file"):
        code, out, err = ended("create", "--name", "k", "--scope", "state:read", "--secret-file", str(path))
        assert (code, out) == (1, "") and err.startswith("error: ")
    assert taken.read_text() == "precious" and not (tmp_path / "target").exists()
    assert not ApiKey.objects.exists()


def test_a_refused_key_leaves_no_secret_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    code, _, err = ended("create", "--name", "k", "--scope", "state:reed", "--secret-file", str(path))
    assert code == 1 and "state:reed" in err
    assert not path.exists()


def test_list_shows_live_keys_and_with_all_the_dead() -> None:
    live, dead = create("--scope", "state:read"), create("--scope", "state:read", "--namespace", "other")
    keys("revoke", dead["id"])
    assert [key["id"] for key in json.loads(keys("list", "--json")[0])["keys"]] == [live["id"]]
    everything = json.loads(keys("list", "--all", "--json")[0])
    assert {key["id"] for key in everything["keys"]} == {live["id"], dead["id"]} and everything["next_cursor"] is None
    assert dead["id"] in keys("list", "--all", "--namespace", "other")[0]
    assert live["id"] not in keys("list", "--all", "--namespace", "other")[0]
    assert "make one" in keys("list", "--namespace", "nowhere")[1]


def test_show_and_revoke_speak_of_one_key() -> None:
    made = create("--scope", "state:read", "--collection", "flights", "--kind", "agent")
    shown = json.loads(keys("show", made["id"], "--json")[0])
    assert (shown["kind"], shown["collections"], shown["revoked_at_ms"]) == ("agent", ["flights"], None)
    revoked = json.loads(keys("revoke", made["id"], "--json")[0])
    assert revoked["revoked_by"] == "human:command-line" and revoked["revoked_at_ms"]
    assert "revoked" in keys("show", made["id"])[0]
    assert verify.principal_of(made["secret"], now=services.utc_now()) is None


def test_an_unknown_key_is_refused() -> None:
    for subcommand in ("show", "revoke"):
        assert ended(subcommand, "nobody")[:2] == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["create", "--scope", "state:read"],
        ["create", "--name", "k"],
        ["create", "--name", "k", "--scope", "state:read", "--expires-in", "soon"],
        ["create", "--name", "k", "--scope", "state:read", "--expires-at", "2999-01-01T00:00:00"],
        [
            "create",
            "--name",
            "k",
            "--scope",
            "state:read",
            "--expires-in",
            "1d",
            "--expires-at",
            "2999-01-01T00:00:00Z",
        ],
        ["create", "--name", "k", "--scope", "state:read", "--kind", "human"],
        ["create", "--name", "k", "--scope", "state:read", "--unknown"],
        ["show"],
    ],
)
def test_wrong_usage_makes_no_key(arguments: list[str]) -> None:
    with pytest.raises(CommandError):  # from a shell: exit code 2
        keys(*arguments)
    assert not ApiKey.objects.exists()


def test_from_a_shell_wrong_usage_ends_with_2_and_help_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    from apps.keys.management.commands.keys import Command

    for arguments, code in ((["create"], 2), (["create", "--help"], 0), (["--help"], 0)):
        with pytest.raises(SystemExit) as caught:
            Command().run_from_argv(["manage.py", "keys", *arguments])
        assert caught.value.code == code
    assert "state:read" in capsys.readouterr().out
    assert not ApiKey.objects.exists()


def test_a_database_that_is_away_ends_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_: Any) -> None:
        raise OperationalError("unable to open database file")

    monkeypatch.setattr(reading, "list_keys", away)
    code, out, err = ended("list")
    assert (code, out) == (3, "") and "unable to open database file" in err and "Traceback" not in err
