"""A process that makes a backup or restores one and dies at a step. Arguments: what, source, destination, step."""

import sys
from pathlib import Path

from feltdb_engine import Store
from feltdb_engine.backup import restore
from tests.engine.hooks import HookedFiles, die_at


def main() -> None:
    what, source, dest, step = sys.argv[1:]
    files = HookedFiles(die_at(step, 0))
    if what == "backup":
        with Store.open(Path(source), create=False, files=files) as store:
            store.backup(dest)
    else:
        restore(source, dest, files=files)


if __name__ == "__main__":
    main()
