"""What docs/triggers.md shows is true: definitions can be defined, predicates read, codes are the table's."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from apps.http.codes import CODES
from apps.triggers.definition import MEMBERS, read
from apps.triggers.predicate import OPERATORS, parse
from apps.workloads.commands import Subject

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "triggers.md").read_text(encoding="utf-8")
BLOCKS = [json.loads(block) for block in re.findall(r"^ *```json\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)]


def test_the_definition_shown_can_be_defined() -> None:
    [document] = [block for block in BLOCKS if "target_capability" in block]
    assert read(document, namespace="default", requested_by=Subject(kind="service", id="k")).trigger_id == "big-order"


def test_the_predicate_shown_does_what_the_page_says() -> None:
    [document, left_draft] = [block for block in BLOCKS if "all" in block]
    before, after = {"status": "draft"}, {"status": "paid"}
    assert parse(left_draft).test(after, before, after).value == "matched"
    assert parse(left_draft).test(after, after, after).value != "matched"
    holds = {"customer": {"country": "DE"}, "total": 100, "status": "paid"}
    assert parse(document).test(holds).value == "matched"
    for change in ({"total": 99}, {"status": "new"}, {"test": False}, {"customer": {"country": "FR"}}):
        assert parse(document).test(holds | change).value != "matched"


def test_the_input_shown_has_the_members_that_work_gets(world: Any) -> None:
    [shown] = [block for block in BLOCKS if "provenance" in block]
    world.define()
    world.put("orders", "1001", {"status": "paid", "total": 120})
    world.evaluate()
    made = world.workloads()[0].request.input
    assert {name: set(part) for name, part in shown.items()} == {name: set(part) for name, part in made.items()}
    assert set(shown["provenance"]["contract"]) == set(made["provenance"]["contract"])


def test_every_member_of_a_definition_is_explained() -> None:
    unexplained = {name for name in MEMBERS if f"`{name}`" not in PAGE}
    assert unexplained <= {"max_lag_operations"}, "told where retention is told"


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_named(operator: str) -> None:
    assert operator in PAGE


def test_the_codes_have_the_status_of_the_table() -> None:
    rows = re.findall(r"^\| ((?:`[A-Z_]+`(?:, )?)+) \| (\d{3}) \|", PAGE, re.MULTILINE)
    assert len(rows) >= 6
    for codes, status in rows:
        for code in re.findall(r"`([A-Z_]+)`", codes):
            assert CODES[code].status == int(status), code
