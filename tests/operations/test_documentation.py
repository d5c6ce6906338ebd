"""The runbook has a word for everything an instance may say is wrong: reasons, alerts, codes."""

import re
from pathlib import Path

import yaml

from apps.http.codes import CODES
from apps.operations.reasons import REASONS, Severity

ROOT = Path(__file__).resolve().parents[2]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
SHORTEST = 40


def sections() -> dict[str, str]:
    """The text under each heading of the third level."""
    pieces = re.split(r"^### (\S+)\n", RUNBOOK, flags=re.MULTILINE)[1:]
    return {
        name: re.split(r"^## ", text, flags=re.MULTILINE)[0].strip()
        for name, text in zip(pieces[::2], pieces[1::2], strict=True)
    }


def test_every_reason_has_a_section_that_says_how_bad_it_is_and_the_next_step() -> None:
    found = sections()
    for code, known in REASONS.items():
        begins = "Not ready. " if known.severity is Severity.BLOCKING else "Serves; somebody should look. "
        assert found[code].startswith(begins + known.next_step), code
        assert len(found[code]) > len(begins + known.next_step) + 5, f"{code}: nothing more is said"


def test_every_alert_has_a_section_and_no_section_is_about_nothing() -> None:
    rules = yaml.safe_load((ROOT / "docs" / "alerts.yml").read_text(encoding="utf-8"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert alerts <= sections().keys()
    assert sections().keys() <= alerts | REASONS.keys() | CODES.keys()


def test_every_code_is_in_the_runbook_once_and_with_what_to_do() -> None:
    rows = re.findall(r"^\| (`[A-Z_`, ]+) \| (.+) \|$", RUNBOOK, re.MULTILINE)
    listed = [code for first, _ in rows for code in re.findall(r"`([A-Z_]+)`", first)]
    assert len(listed) == len(set(listed)) and set(listed) <= CODES.keys()
    assert all(len(text) > SHORTEST for _, text in rows)
    for code, known in CODES.items():
        assert (code in sections()) == (known.status >= 500), code
        assert (code in listed) == (known.status < 500), code


def anchors(path: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub makes it."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_of_every_page_lead_somewhere() -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
            if "://" in target:
                continue
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(there), f"{page.name}: {target}#{anchor}"
