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

from apps.keys import bookkeeping, reading, services, verify
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


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_rotate_shows_the_new_secret_once_and_says_when_the_old_one_ends() -> None:
    made = create("--scope", "state:read")
    out, _ = keys("rotate", made["id"], "--grace", "1h")
    assert out.count("fdb_live_") == 1 and "goes on until" in out
    rotated = json.loads(keys("rotate", made["id"], "--json")[0])
    assert (rotated["id"], rotated["old_secret_ends_at_ms"]) == (made["id"], None)
    assert verify.principal_of(rotated["secret"], now=services.utc_now()) is not None
    assert verify.principal_of(made["secret"], now=services.utc_now()) is None


def test_rotate_writes_the_secret_to_a_file_and_rotates_nothing_where_it_cannot(tmp_path: Path) -> None:
    made, path = create("--scope", "state:read"), tmp_path / "secret"
    out, _ = keys("rotate", made["id"], "--secret-file", str(path))
    assert "fdb_" not in out and stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = path.read_text().strip()
    assert ended("rotate", made["id"], "--secret-file", str(path))[0] == 1
    assert ended("rotate", "nobody", "--secret-file", str(tmp_path / "none"))[0] == 1
    assert not (tmp_path / "none").exists()
    assert verify.principal_of(secret, now=services.utc_now()) is not None


def test_the_rest_of_a_grace_is_given_up() -> None:
    made = create("--scope", "state:read")
    keys("rotate", made["id"], "--grace", "1d")
    assert json.loads(keys("rotate", made["id"], "--end-old", "--json")[0]) == {"id": made["id"], "ended": True}
    assert verify.principal_of(made["secret"], now=services.utc_now()) is None
    assert "no old secret" in keys("rotate", made["id"], "--end-old")[0]


def test_show_names_the_rights_that_were_used_and_those_that_were_not() -> None:
    made = create("--scope", "state:read,state:write")
    bookkeeping.note_use(made["id"], "state:read", now=services.utc_now())
    bookkeeping.flush(now=services.utc_now())
    out, _ = keys("show", made["id"])
    assert "used        state:read\n" in out and "unused      state:write\n" in out


def test_check_reads_the_key_from_standard_input_and_says_which_rule_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    made = create("--scope", "state:read", "--collection", "orders")
    typed(monkeypatch, made["secret"] + "\n")
    out, _ = keys("check", "get", "/v1/collections/orders")
    assert "passes" in out and made["id"] in out and "fdb_" not in out
    for method, path, rule in (
        ("DELETE", "/v1/collections/orders/1", "scope"),
        ("GET", "/v1/collections/flights", "collection"),
        ("GET", "/v1/nowhere", "route"),
    ):
        typed(monkeypatch, made["secret"])
        code, out, _ = ended("check", method, path, "--json")
        document = json.loads(out)
        assert (code, document["passes"], document["rule"]) == (1, False, rule)
        assert document["key_id"] == made["id"]
    keys("revoke", made["id"])
    typed(monkeypatch, made["secret"])
    code, out, _ = ended("check", "GET", "/v1/collections/orders")
    assert code == 1 and "401" in out and "is revoked since" in out and "fdb_" not in out


def test_check_reads_the_key_from_a_file_and_counts_as_no_use(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = create("--scope", "state:read", "--secret-file", str(path))
    assert "passes" in keys("check", "GET", "/v1/collections", "--secret-file", str(path))[0]
    assert ApiKey.objects.get(pk=made["id"]).last_used_at is None
    code, _, err = ended("check", "GET", "/v1/collections", "--secret-file", str(tmp_path / "none"))
    assert code == 1 and "cannot be read" in err


def test_import_prints_what_became_of_each_key_and_ends_with_1_where_one_was_refused(tmp_path: Path) -> None:
    good = {"id": "a1", "name": "n", "hash": "sha256:" + "0" * 64, "scopes": ["*"], "namespaces": ["Old"]}
    path = tmp_path / "api-keys.json"
    path.write_text(json.dumps({"keys": [good, {**good, "id": "b2", "namespaces": ["Else"]}]}))
    code, out, err = ended("import", str(path), "--rename-namespace", "Old=new")
    assert code == 1 and "1 of 2" in err
    assert [line.split()[:2] for line in out.splitlines()] == [["a1", "imported"], ["b2", "refused"]]
    path.write_text(json.dumps([good]))
    [again] = json.loads(keys("import", str(path), "--json")[0])["keys"]
    assert again == {"id": "a1", "outcome": "here already", "note": ""}
    path.write_text("{")
    assert ended("import", str(path))[0] == 1
    assert ended("import", str(tmp_path / "none"))[0] == 3


def test_peppers_are_listed_rotated_and_dropped(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR, settings.KEY_PEPPER = tmp_path, ""
    made = create("--scope", "state:read")
    assert "version 1  here, current; 1 live secrets" in keys("pepper", "list")[0]
    document = json.loads(keys("pepper", "rotate", "--json")[0])
    assert [(each["version"], each["current"]) for each in document["peppers"]] == [(1, False), (2, True)]
    code, _, err = ended("pepper", "drop", "1")
    assert code == 1 and "1 live secret" in err
    keys("revoke", made["id"])
    assert [each["version"] for each in json.loads(keys("pepper", "drop", "1", "--json")[0])["peppers"]] == [2]
