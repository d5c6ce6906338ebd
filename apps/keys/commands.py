"""What FeltDB's management commands share: `--json`, plain errors and exit codes.

Exit codes: 0 done, 1 refused, 2 usage, 3 storage. With `--json` exactly one JSON document goes to standard output;
everything a person should read goes to standard error.
"""

import sys
from typing import Any, ClassVar, NoReturn

from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, InterfaceError

from apps.http import strict_json
from feltdb_engine.errors import EngineError, StorageError

REFUSED = 1
USAGE = 2
STORAGE = 3
_NOT_MADE = frozenset({"42P01", "42703"})  # PostgreSQL's undefined_table and undefined_column


class PlainCommand(BaseCommand):
    """A command of this project: implement `run`; raise one of `refusals`, or call `refuse`, to end with code 1."""

    refusals: ClassVar[tuple[type[Exception], ...]] = ()
    requires_system_checks = []

    def run(self, **options: Any) -> None:
        """Do the command's work."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        """Run, and turn every expected failure into plain words and its exit code."""
        try:
            self.run(**options)
        except StorageError as error:
            self.end(STORAGE, f"storage: {error}")
        except EngineError as error:
            self.end(REFUSED, str(error))
        except self.refusals as error:
            self.end(REFUSED, str(error))
        except (DatabaseError, InterfaceError) as error:
            self.end(STORAGE, database_trouble(error))
        except OSError as error:
            # The system's own words, and the file they are about, without its number.
            place = f": {error.filename}" if error.filename else ""
            self.end(STORAGE, f"{(error.strerror or str(error)).lower()}{place}")

    def refuse(self, message: str) -> NoReturn:
        """End with exit code 1 and the message."""
        self.end(REFUSED, message)

    def end(self, code: int, message: str) -> NoReturn:
        """Say `message` on standard error and end with `code`."""
        self.stderr.write(f"error: {message}")
        sys.exit(code)

    def emit(self, document: Any) -> None:
        """Write the one JSON document to standard output."""
        self.stdout.write(strict_json.dumps(document).decode())


def database_trouble(error: Exception) -> str:
    """Return what to tell of a database that cannot be used: its own words, and the next step where tables lack."""
    words = " ".join(str(error).split())
    state = getattr(error.__cause__, "sqlstate", None)
    not_made = state in _NOT_MADE or words.startswith(("no such table", "no such column"))
    next_step = " (it is not made, or of another version: run 'manage.py setup')" if not_made else ""
    return f"the database cannot be used: {words}{next_step}"


def add_json_option(parser: CommandParser) -> None:
    """Give a (sub)command `--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
