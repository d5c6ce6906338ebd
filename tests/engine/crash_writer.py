"""A writer process of the crash tests: commits transactions until it is killed at a named step, or has made enough.

Arguments: directory, journal, writer's name, seed, number of commits, step to die at ("" = none), how many times to
pass it. Its journal gets a line before each commit ("try <id>") and one after each answer ("ack <id> <revision>
<sequences>").
"""

import os
import random
import sys
from pathlib import Path

from feltdb_engine import Mutation, Store
from tests.engine.hooks import HookedFiles, die_at


def main() -> None:
    directory, journal_path, name, seed, commits, step, after = sys.argv[1:]
    journal = os.open(journal_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    choose = random.Random(int(seed))
    store = Store.open(Path(directory), create=False, files=HookedFiles(die_at(step, int(after))))
    for number in range(int(commits)):
        identity = f"{name}-{seed}-{number}"
        size = choose.randint(1, 4)
        mutations = [
            Mutation(
                kind="put",
                collection="rows",
                id=f"{identity}-{row}",
                value={"transaction": identity, "rows": size, "body": "x" * choose.choice((10, 300, 3000))},
            )
            for row in range(size)
        ]
        mutations.append(
            Mutation(kind="put", collection="shared", id=str(choose.randint(0, 3)), value={"by": identity})
        )
        os.write(journal, f"try {identity}\n".encode())
        result = store.commit(mutations, transaction_id=identity)
        sequences = ",".join(map(str, result.sequences))
        os.write(journal, f"ack {identity} {result.revision} {sequences}\n".encode())
    store.close()


if __name__ == "__main__":
    main()
