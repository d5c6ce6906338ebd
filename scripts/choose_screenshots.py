"""From tests/screenshots/ to docs/images/: those that docs/operators.md shows, cut to one screen, in few colours."""

import re
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
TAKEN, KEPT = ROOT / "tests" / "screenshots", ROOT / "docs" / "images"
MAX_HEIGHT = 900
COLOURS = 64
SHOWN = re.compile(r"\(images/([\w-]+\.png)\)")


def main() -> int:
    """Make each picture that the page names; those it names no more go. Returns 1 where one was not taken."""
    names = set(SHOWN.findall((ROOT / "docs" / "operators.md").read_text(encoding="utf-8")))
    KEPT.mkdir(exist_ok=True)
    for stale in KEPT.glob("*.png"):
        if stale.name not in names:
            stale.unlink()
    missing = [name for name in sorted(names) if not (TAKEN / name).exists()]
    for name in sorted(names - set(missing)):
        with Image.open(TAKEN / name) as picture:
            screen = picture.convert("RGB").crop((0, 0, picture.width, min(picture.height, MAX_HEIGHT)))
            screen.quantize(COLOURS).save(KEPT / name, optimize=True)
            print(f"{name}: {(KEPT / name).stat().st_size // 1024} KiB")
    for name in missing:
        print(f"{name} was not taken", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
