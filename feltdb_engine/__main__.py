"""`python -m feltdb_engine`: looking at and looking after a store's directory from a shell.

Exit codes: 0 done, 1 refused, 2 usage, 3 storage, 4 something was found.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TextIO

import orjson

from feltdb_engine.backup import as_members, restore, verify_backup
from feltdb_engine.bundle import MANIFEST_NAME
from feltdb_engine.errors import EngineError, LogCorrupt, StorageError
from feltdb_engine.limits import IMPORT_BATCH_LINES
from feltdb_engine.policy import Retention
from feltdb_engine.store import Store
from feltdb_engine.verify import Verification, verify_damaged

REFUSED: Final = 1
STORAGE: Final = 3
FINDINGS: Final = 4
_QUIET_S: Final = 2.0
_DAY_MS: Final = 86_400_000


class ProgressLine:
    """Says how far something is, on the error stream, once it has taken more than two seconds."""

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic, *, unit: str = "MiB", shift: int = 20
    ) -> None:
        self._stream = stream
        self._unit = unit
        self._shift = shift
        self._clock = clock
        self._next = clock() + _QUIET_S

    def __call__(self, done: int, total: int) -> None:
        """So many done of so many; 0 of them where nobody knows."""
        now = self._clock()
        if now >= self._next:
            self._next = now + _QUIET_S
            said = f"{done >> self._shift} {self._unit}"
            if total:
                said = f"{100 * done // total} % ({done >> self._shift} of {total >> self._shift} {self._unit})"
            print(said, file=self._stream, flush=True)


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
    for name in ("export", "dump"):
        export = command(name, _export, "Write all live records, of one moment, as lines of JSON.")
        export.add_argument("--collection", action="append", help="only this one; may be given several times")
        export.add_argument("--as-of", type=int, help="as they were at this revision")
    importing = command("import", _import, "Take in lines of JSON, each once: what was left is gone on with.")
    importing.add_argument("file", help="the lines; - is the standard input")
    importing.add_argument("--id", required=True, help="names the import; the same lines again need the same")
    importing.add_argument("--collection", help="of lines that name none")
    importing.add_argument("--mode", choices=("put", "insert"), default="put", help="insert refuses what is there")
    importing.add_argument("--on-bad-row", choices=("stop", "skip"), default="stop", help="see docs/engine.md")
    importing.add_argument("--batch-lines", type=int, default=IMPORT_BATCH_LINES, help="lines in a transaction")
    command("stats", _stats, "Sizes and counts.")
    command("rebuild-view", _rebuild, "Make the view again from the log. Stop what has the store open first.")
    compact = command("compact", _compact, "Let go of old history, while the store is in use.")
    compact.add_argument("--keep-days", type=_number, default=30.0, help="history younger than this stays (30)")
    compact.add_argument(
        "--keep-bytes", type=_count, help="history beyond the newest so many bytes goes, however young"
    )
    compact.add_argument("--retain-from", type=_count, help="everything after this sequence stays")
    compact.add_argument("--ids-days", type=_number, default=30.0, help="transaction ids younger than this stay (30)")
    compact.add_argument(
        "--ids-count", type=_count, default=10_000_000, help="and at least the newest so many (10000000)"
    )
    compact.add_argument("--ids-for-ever", action="store_true", help="remember every transaction id")
    compact.add_argument("--dry-run", action="store_true", help="say what would be done")
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
        return verify_damaged(Path(directory), error, None, progress)


def _export(options: argparse.Namespace) -> int:
    with Store.open(options.directory, create=False, read_only=True) as store:
        at = None if options.as_of is None else store.as_of(options.as_of)
        for lines in store.export(
            options.collection, at=at, progress=ProgressLine(sys.stderr, unit="records", shift=0)
        ):
            sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()
        return _told_of_damage(store)


def _told_of_damage(store: Store) -> int:
    """The exit code of a reading command; what is shown of a damaged store is not all there was."""
    seen = store.health()
    if seen.storage != "damaged":
        return 0
    print(f"LOG_CORRUPT: the log is damaged; this is the store up to sequence {seen.head}.", file=sys.stderr)
    return FINDINGS


def _import(options: argparse.Namespace) -> int:
    told = ProgressLine(sys.stderr, unit="lines", shift=0)
    with ExitStack() as stack:
        store = stack.enter_context(Store.open(options.directory, create=False))
        lines = sys.stdin.buffer if options.file == "-" else stack.enter_context(open(options.file, "rb"))
        report = store.import_ndjson(
            iter(lambda: lines.read(1 << 16), b""),
            options.id,
            collection=options.collection,
            mode=options.mode,
            on_bad_row=options.on_bad_row,
            batch_lines=options.batch_lines,
            progress=lambda done, _: told(done, 0),
        )
    _show(options, asdict(report))
    if not options.json:
        for one in report.bad:
            print(f"line {one.line}: {one.code}: {one.message} {one.pointer or ''}".rstrip())
    return FINDINGS if report.bad_rows else 0


def _stats(options: argparse.Namespace) -> int:
    with Store.open(options.directory, create=False, read_only=True) as store:
        _show(options, asdict(store.stats()))
        return _told_of_damage(store)


def _rebuild(options: argparse.Namespace) -> int:
    with Store.open(options.directory, create=False) as store:
        store.rebuild_view()
        _show(options, {"rebuilt": True, "head": store.head().sequence})
    return 0


def _number(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _compact(options: argparse.Namespace) -> int:
    policy = Retention(
        age_ms=int(options.keep_days * _DAY_MS),
        bytes=options.keep_bytes,
        ids_age_ms=None if options.ids_for_ever else int(options.ids_days * _DAY_MS),
        ids_count=options.ids_count,
    )
    with Store.open(options.directory, create=False) as store:
        done = store.compact(
            policy,
            retain_from=options.retain_from,
            dry_run=options.dry_run,
            progress=ProgressLine(sys.stderr),
        )
    if done.rewrite_due and not done.dry_run:
        Store.open(options.directory, create=False).close()  # alone, it rewrites the view
    _show(options, asdict(done))
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
