"""What docs/api.md says of shapes and bounds is what holds."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from apps.http import limits as http
from apps.http import openapi
from apps.state import limits
from apps.state.api import urls  # noqa: F401 - every route registers its shapes
from feltdb_engine import limits as engine
from feltsite import capacity

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
WORDS = {"two": 2, "four": 4, "five": 5, "half": 2, "quarter": 4}
BOUNDS: list[tuple[str, int]] = [
    (r"seconds, at most (\d+)\) waits", limits.WAIT_MAX_S),
    (r"looks? at more than ([\d,]+) records", engine.SCAN_BUDGET_RECORDS),
    (r"fields it is over \(at most\s+(\w+)\)", engine.INDEX_MAX_FIELDS),
    (r"Every (\d+) rows are one transaction", limits.IMPORT_BATCH_ROWS),
    (r"fewer where they come to (\d+) MiB", limits.IMPORT_BATCH_BYTES // 2**20),
    (r"Each process runs (\w+) of each at once", limits.MAX_EXPORTS),
    (r"Each process runs (\w+) of each at once", limits.MAX_IMPORTS),
    (r"A program is up to (\d+) steps", limits.PROGRAM_STEPS),
    (r"split it: (\d+) MiB for a record's body", limits.RECORD_BODY_BYTES // 2**20),
    (r"split it: (\d+) MiB for a record's body", http.MAX_BODY_BYTES // 2**20),
    (r"(\d+) MiB for a transaction", limits.TRANSACTION_BODY_BYTES // 2**20),
    (r"ended cleanly after (\w+)\s+minutes \(`FELTDB_STREAM_MAX_LIFE_S`\)", 5),
    (r"streams as a (\w+) of its threads", 4),
    (r"\((\d+) by default on two cores;", capacity.of({}, cores=2).streams),
    (r"says how many\), (\w+) of them for one key", limits.STREAM_KEYS_SHARE),
]
SHAPES = {"version": "Record", "transactionId": "Outcome", "operations": "Changes", "code": "Error"}
"""The shape of an example by a member that no other has."""


@pytest.mark.parametrize(("said", "holds"), BOUNDS, ids=[said for said, _ in BOUNDS])
def test_a_bound_that_the_page_names_is_the_one_that_holds(said: str, holds: int) -> None:
    found = re.findall(said, PAGE)
    assert found, "the page does not say so"
    assert {WORDS.get(each) or int(each.replace(",", "")) for each in found} == {holds}


def examples() -> list[Any]:
    return [json.loads(each) for each in re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)]


def test_every_answer_that_the_page_shows_has_the_members_that_answers_have() -> None:
    shown = set()
    for example in examples():
        [name] = [shape for member, shape in SHAPES.items() if member in example]
        shown.add(name)
        schema = openapi._schemas[name]
        assert set(schema["required"]) <= set(example), name
        Draft202012Validator({**schema, "components": {"schemas": openapi._schemas}}).validate(example)
    assert shown == set(SHAPES.values())


def test_every_scope_that_the_page_names_is_one() -> None:
    from apps.keys.scopes import SCOPES

    named = set(re.findall(r"`([a-z]+:[a-z]+)`", PAGE))
    assert len(named) > 5 and named <= set(SCOPES)
