"""What `make coverage` holds against the page: lines never run, ways out never taken, and how the page names them."""

from pathlib import Path

from tests.engine.uncovered import HEADING, named, reported


def test_lines_never_run_and_ways_never_taken_are_told_by_their_code(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "def f(a):\n    if a:\n        return 1\n    while a:\n        a = 0\n    return 2\n"
    )
    one = {"missing_lines": [3], "missing_branches": [[2, 3], [4, 5]]}
    assert reported({"files": {"m.py": one}}, tmp_path) == {("m.py", "return 1"), ("m.py", "while a:")}


def test_the_page_names_a_module_and_lines_of_code() -> None:
    items = "- `m.py`: `return 1`, `if a:` and\n  ``x = '`'``: why\n- `n.py`: `y`: why\n"
    page = f"{HEADING}\n\nWords `code`.\n\n{items}\n## Next\n\n- `o.py`: `z`\n"
    assert named(page) == {("m.py", "return 1"), ("m.py", "if a:"), ("m.py", "x = '`'"), ("n.py", "y")}


def test_a_page_without_the_section_names_nothing() -> None:
    assert named("# Page\n\n- `m.py`: `x`\n") == set()
