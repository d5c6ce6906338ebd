"""`python -m tests.engine.uncovered`: holds what coverage reports as never reached against docs/reliability.md.

The page names each such line of the engine, as it stands in the code, with the reason. Fails where one is not named.
Where a named one was reached it says so and no more: some are reached only when processes meet in a certain way.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
HEADING = "## What no test reaches"

Places = set[tuple[str, str]]
"""Module and line of code."""


def named(page: str) -> Places:
    """What the page names: items of the section's list, the module first, then lines of code, then the reason."""
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    found = set()
    for item in re.split(r"^- ", section, flags=re.MULTILINE)[1:]:
        module, *lines = re.findall(r"``(.+?)``|`(.+?)`", " ".join(item.split()))
        found |= {("".join(module), "".join(line)) for line in lines}
    return found


def reported(report: dict[str, Any], root: Path = ROOT) -> Places:
    """What coverage says: lines never run, and lines of which one way out was never taken to a line that was run."""
    found = set()
    for name, one in report["files"].items():
        code = (root / name).read_text().splitlines()
        missing = set(one["missing_lines"])
        left = {begin for begin, end in one["missing_branches"] if abs(end) not in missing and begin not in missing}
        found |= {(Path(name).name, code[number - 1].strip()) for number in missing | left}
    return found


def main() -> int:
    """Compare, and say what differs."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "coverage.json"
        made = [sys.executable, "-m", "coverage", "json", "--quiet", "--fail-under=0", "-o", str(path)]
        subprocess.run(made, check=True)
        report = json.loads(path.read_text())
    told, seen = named(PAGE.read_text()), reported(report)
    for module, line in sorted(told - seen):
        print(f"reached this time: {module}: {line}")
    for module, line in sorted(seen - told):
        print(f"not reached, and not named in {PAGE.name}: {module}: {line}")
    return 1 if seen - told else 0


if __name__ == "__main__":
    sys.exit(main())
