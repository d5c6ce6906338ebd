"""FeltDB asked what the reference's clients ask: each answer is the reference's, or the difference is written down.

A difference that no row shows any more must go from the page, and one that a row shows must be on it. Cost: about 2 s.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ApiClient
from tests.reference.exchanges import Answer, Exchange, apart, filled, keep
from tests.reference.rows import SUBJECTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference-differences.md").read_text(encoding="utf-8")
WALKED, _, TOLD = PAGE.partition("\n## Told by other tests\n")


def named(part: str) -> list[str]:
    """Return the names in the first column of the page's tables."""
    return re.findall(r"^\| `([a-z0-9-]+)` \|", part, re.MULTILINE)


def ask(clients: dict[str | None, ApiClient], exchange: Exchange) -> Answer:
    method, target = exchange.send.split(" ", 1)
    headers: dict[str, Any] = dict(exchange.headers)
    content_type = headers.pop("Content-Type", "application/json")
    answer = clients[exchange.key].call(method, target, exchange.raw, content_type=content_type, headers=headers)
    body = b""
    if not answer.streaming:
        body = answer.content
    else:
        for piece in answer.streaming_content:
            body += piece
            if b"data:" in body:
                break
    lowered = {name.lower(): value for name, value in answer.headers.items()}
    return Answer(status=answer.status_code, headers=lowered, body=body)


@pytest.fixture
def clients(api: Any, make_key: Any, data_dir: Path) -> dict[str | None, ApiClient]:
    reader = make_key(scopes=["state:read", "events:read"])
    return {"all": api(), "reader": api(reader), None: api(None)}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_answer_is_the_references_or_its_difference_is_named(
    clients: dict[str | None, ApiClient], subject: str
) -> None:
    kept: dict[str, str] = {}
    for row in SUBJECTS[subject]:
        exchange = filled(row, kept)
        answer = ask(clients, exchange)
        keep(exchange, answer, kept)
        found = apart(exchange, answer)
        where = f"{subject}: {exchange.says}: {exchange.send} gave {answer.status} {answer.body[:300]!r}"
        unnamed = {name: found[name] for name in found.keys() - exchange.differs.keys()}
        assert not unnamed, f"{where}\ndiffers from the reference in what no name is given for: {unnamed}"
        gone = exchange.differs.keys() - found.keys()
        assert not gone, f"{where}\nis the reference's now, but the row says that it differs in {gone}"


def test_the_page_names_the_differences_that_the_rows_show_and_no_others() -> None:
    shown = {name for rows in SUBJECTS.values() for exchange in rows for name in exchange.differs.values()}
    names = named(WALKED)
    assert len(names) == len(set(names))
    assert set(names) == shown


def test_what_other_tests_tell_is_told_by_tests_that_there_are() -> None:
    rows = [line for line in TOLD.splitlines() if line.startswith("| `")]
    assert len(rows) == len(set(named(TOLD))) > 5
    assert not set(named(TOLD)) & set(named(WALKED))
    for row in rows:
        file, test = re.findall(r"`(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)`", row)[0]
        assert re.search(rf"^(    )?def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), row
