"""The page that says how each promise of triggers and work is proved names tests that are there."""

import re
from pathlib import Path

from tests.workloads.test_acceptance import check

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability-of-work.md"


def test_every_promise_names_tests_that_are_there():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "promise | tests" not in line]
    assert len(rows) > 60
    for row in rows:
        check(tuple(re.findall(r"`([\w/]+::\w+)`", row)))
