"""`python -m feltdb_engine`: looking at and looking after a store's directory from a shell.

Exit codes: 0 done, 1 refused, 2 usage, 3 storage, 4 something was found.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, TextIO

import orjson

from feltdb_engine.backup import as_members, restore, verify_backup
from feltdb_engine.bundle import MANIFEST_NAME
from feltdb_engine.errors import EngineError, LogCorrupt, StorageError
from feltdb_engine.limits import PAGE_MAX_RECORDS
from feltdb_engine.store import Store
from feltdb_engine.verify import Verification, as_finding, verify_log

REFUSED: Final = 1
STORAGE: Final = 3
FINDINGS: Final = 4
_QUIET_S: Final = 2.0


class ProgressLine:
    """Says how far something is, on the error stream, once it has taken more than two seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._next = clock() + _QUIET_S

    def __call__(self, done: int, total: int) -> None:
        """Bytes done of the bytes there are."""
        now = self._clock()
        if now >= self._next:
            self._next = now + _QUIET_S
            share = 100 * done // total if total else 100
            print(f"{share} % ({done >> 20} of {total >> 20} MiB)", file=self._stream, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (StorageError, OSError) as error:
        return _refuse(options, getattr(error, "code", "STORAGE_ERROR"), str(error), STORAGE)
    except EngineError as error:
        return _refuse(options, error.code, error.message, REFUSED)


def _refuse(options: argparse.Namespace, code: str, message: str, exit_code: int) -> int:
    if options.json:
        _out(orjson.dumps({"code": code, "error": message}))
    print(f"{code}: {message}", file=sys.stderr)
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m feltdb_engine", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help)
        made.add_argument("directory", metavar="DIR")
        made.add_argument("--json", action="store_true", help="answer in JSON")
        made.set_defaults(run=run)
        return made

    command("verify", _verify, "Check every byte of a store, or of a backup; lists what is found.")
    dump = command("dump", _dump, "Write all live records as lines of JSON.")
    dump.add_argument("--collection", help="only this one")
    command("stats", _stats, "Sizes and counts.")
    command("rebuild-view", _rebuild, "Make the view again from the log. Stop what has the store open first.")
    backup = command("backup", _backup, "Copy a store while it is in use.")
    backup.add_argument("dest", help="the backup to make; it must not exist")
    restoring = command("restore", _restore, "Make a store of the backup DIR.")
    restoring.add_argument("dest", help="the store's directory to make; it must not exist")
    restoring.add_argument("--to-revision", type=int, help="only up to this sequence, the last of a transaction")
    return parser


def _out(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _show(options: argparse.Namespace, members: dict[str, Any]) -> None:
    if options.json:
        _out(orjson.dumps(members))
        return
    for name, value in members.items():
        if not isinstance(value, (list, tuple)):
            print(f"{name:18} {value}")


def _verify(options: argparse.Namespace) -> int:
    progress = ProgressLine(sys.stderr)
    if _is_backup(options.directory):
        _show(options, as_members(verify_backup(options.directory, progress)))
        return 0
    found = _verified(options.directory, progress)
    _show(options, {"good": found.good, **asdict(found)})
    if not options.json:
        for one in found.findings:
            print(f"{one.kind}: {one.message} segment={one.segment} offset={one.offset} sequence={one.sequence}")
    return 0 if found.good else FINDINGS


def _is_backup(directory: str) -> bool:
    return (Path(directory) / MANIFEST_NAME).exists()


def _verified(directory: str, progress: ProgressLine) -> Verification:
    try:
        with Store.open(directory, create=False, read_only=True) as store:
            return store.verify(progress)
    except LogCorrupt as error:
        seen = verify_log(Path(directory), progress=progress)
        return seen if seen.findings else replace(seen, findings=(as_finding(error),))


def _dump(options: argparse.Namespace) -> int:
    with Store.open(options.directory, create=False, read_only=True) as store:
        names = [options.collection] if options.collection else [one.name for one in store.collections()]
        for name in names:
            after: str | None = None
            while True:
                page = store.page(name, after=after, limit=PAGE_MAX_RECORDS)
                for record in page.records:
                    _out(orjson.dumps(record._asdict()))
                after = page.next_after
                if after is None:
                    break
    return 0


def _stats(options: argparse.Namespace) -> int:
    with Store.open(options.directory, create=False, read_only=True) as store:
        _show(options, asdict(store.stats()))
    return 0


def _rebuild(options: argparse.Namespace) -> int:
    with Store.open(options.directory, create=False) as store:
        store.rebuild_view()
        _show(options, {"rebuilt": True, "head": store.head().sequence})
    return 0


def _backup(options: argparse.Namespace) -> int:
    with Store.open(options.directory, create=False, read_only=True) as store:
        _show(options, as_members(store.backup(options.dest, ProgressLine(sys.stderr))))
    return 0


def _restore(options: argparse.Namespace) -> int:
    info = restore(options.directory, options.dest, to_revision=options.to_revision, progress=ProgressLine(sys.stderr))
    _show(
        options,
        {**as_members(info), "restored_to": info.sequence if options.to_revision is None else options.to_revision},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
