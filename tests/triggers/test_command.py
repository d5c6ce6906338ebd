"""`manage.py trigger`: what it prints, with and without `--json`, and how it ends."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.workloads.clock import now_ms

TRIGGER = {
    "trigger_id": "on-order",
    "source_collection": "orders",
    "change_kind": "insert",
    "target_capability": "identity",
    "tenant_id": "test",
    "application_id": "app",
    "requested_by": {"kind": "agent", "id": "trigger-agent"},
}


class Ran:
    """What a command printed, and its exit code."""

    def __init__(self, *arguments: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        self.code = 0
        try:
            call_command("trigger", *arguments, stdout=out, stderr=err)
        except SystemExit as ended:
            self.code = int(ended.code or 0)
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(world: Any) -> type[Ran]:
    world.now_ms = now_ms()  # commands go by the clock
    return Ran


def write(path: Path, document: Any) -> str:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def test_define_list_status_and_evaluate_as_json(run: type[Ran], world: Any, tmp_path: Path) -> None:
    defined = run("define", "--input", write(tmp_path / "t.json", TRIGGER), "--json")
    assert (defined.code, defined.json["trigger_id"], defined.json["state"]) == (0, "on-order", "active")
    listed = run("list", "--namespace", "test", "--json").json
    assert [each["trigger_id"] for each in listed["triggers"]] == ["on-order"]

    committed = world.put("orders", "1", {})
    status = run("status", "--namespace", "test", "--json").json
    assert status["triggers"] == 1
    assert status["cursors"] == {"on-order": {committed.instance_id: 0}}
    assert status["lag_operations"] == {"on-order": 1}

    evaluated = run("evaluate", "--namespace", "test", "--json")
    assert evaluated.json == {
        "results": [
            {
                "trigger_id": "on-order",
                "source_change_id": f"{committed.instance_id}:1",
                "workload_id": world.workloads()[0].workload_id,
                "duplicate": False,
            }
        ]
    }
    assert run("evaluate", "--namespace", "test", "--json").json == {"results": []}
    assert run("status", "--namespace", "test", "--json").json["lag_operations"] == {"on-order": 0}


def test_what_people_read_names_the_trigger_its_state_and_its_work(run: type[Ran], world: Any, tmp_path: Path) -> None:
    assert "no triggers" in run("list", "--namespace", "test").out
    file = write(tmp_path / "t.json", TRIGGER)
    assert run("define", "--input", file).out.startswith("defined: on-order  active  insert of orders -> identity")
    assert run("define", "--input", file).out.startswith("unchanged: ")
    assert run("define", "--input", write(tmp_path / "u.json", TRIGGER | {"priority": 1})).out.startswith("changed: ")
    world.put("orders", "1", {"password": "hunter2"})
    world.put("orders", "2", {})
    assert "1 changes matched" in run("evaluate", "--namespace", "test").out
    assert "1 changes are quarantined" in run("status", "--namespace", "test").out


def test_a_trigger_is_operated_from_the_command_line(run: type[Ran], world: Any) -> None:
    world.define()
    on = ("on-order", "--namespace", "test", "--json")
    assert run("disable", *on, "--reason", "quiet").json["state"] == "disabled"
    assert run("enable", *on, "--from", "beginning").json["state"] == "active"
    assert run("pause", *on, "--until-ms", "99", "--reason", "m").json["resumes_at_ms"] == 99
    assert run("resume", *on).json["state"] == "active"
    assert run("delete", *on).json == {"trigger_id": "on-order", "state": "archived"}
    assert run("list", "--namespace", "test", "--json").json == {"triggers": []}


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("{", "JSON_INVALID"),
        (TRIGGER | {"change_kind": "upsert"}, "TRIGGER_INVALID"),
        (TRIGGER | {"tenant_id": "nowhere"}, "NOT_FOUND"),
        (TRIGGER | {"authorization_snapshot": {"grant": {}}}, "TRIGGER_UNAUTHORIZED"),
        ([], "TRIGGER_INVALID"),
    ],
)
def test_a_refused_definition_ends_with_code_one_and_says_why(
    run: type[Ran], tmp_path: Path, document: Any, code: str
) -> None:
    namespace = () if isinstance(document, dict) else ("--namespace", "test")
    refused = run("define", "--input", write(tmp_path / "t.json", document), "--json", *namespace)
    assert (refused.code, refused.out) == (1, "")
    assert code in refused.err


def test_storage_that_fails_ends_with_code_three(
    run: type[Ran], world: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from feltdb_engine import Store
    from feltdb_engine.errors import StorageFailed

    def failed(self: Store, *_: Any, **__: Any) -> None:
        raise StorageFailed("a force failed")

    world.define()
    world.put("orders", "1", {})
    monkeypatch.setattr(Store, "changes", failed)
    assert run("evaluate", "--namespace", "test").code == 3
    assert run("define", "--input", str(tmp_path / "missing.json")).code == 3


def test_a_subcommand_that_is_missing_or_unknown_is_a_usage_error(run: type[Ran]) -> None:
    for arguments in ((), ("dance",), ("define",)):
        with pytest.raises(CommandError):
            call_command("trigger", *arguments)


def test_a_trigger_is_tried_explained_moved_and_replayed_from_the_command_line(
    run: type[Ran], world: Any, tmp_path: Path
) -> None:
    world.define(predicate={"field": "n", "equals": 1})
    for number in range(1, 4):
        world.put("orders", str(number), {"n": number})
    on, plain = ("on-order", "--namespace", "test", "--json"), ("on-order", "--namespace", "test")
    file = write(tmp_path / "members.json", {"predicate": {"field": "n", "op": "gte", "value": 2}})
    assert run("dry-run", *on, "--input", file).json["against"]["only_new"]["matched"] == 2
    assert "2 of 3 changes match" in run("dry-run", *plain, "--input", file).out
    world.evaluate()
    told = run("explain", *on, "2")
    assert told.json["outcome"]["kind"] == "no_match"
    assert "no_match: the predicate does not hold" in run("explain", *plain, "2").out
    assert run("replay", *on, "--from", "beginning").json["made"] == 1
    assert run("rebase", *on, "--to", "beginning").json["cursor"].endswith("-0")
    assert run("skip", *on, "1").json["source_change_id"].endswith(":1")
    assert run("evaluate", "--namespace", "test", "--json").json == {"results": []}
    assert run("retry", *on, "1").code == 1
    assert run("explain", *on, "99").code == 1
