"""The command line: Django's, with FeltDB's commands first and what goes wrong told in a line. Entry: `manage.py`."""

import sys
import textwrap
from collections.abc import Sequence

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import ManagementUtility, get_commands, load_command_class
from django.core.management.base import BaseCommand

STORAGE = 3  # as every command of FeltDB ends where the database cannot be used
COLUMNS = 100

# Commands of Django that an instance is run with; all others are for writing Django applications.
ACCOUNTS = {"changepassword": "Give an account of the console another password."}
ACCOUNTS |= {"createsuperuser": "Make an administrator of the console."}


class CommandLine(ManagementUtility):
    """Django's commands, listed so that those of FeltDB are found."""

    def main_help_text(self, commands_only: bool = False) -> str:
        """Return what `manage.py help` prints: FeltDB's commands with what each does, then the names of the others."""
        if commands_only:
            return super().main_help_text(commands_only)
        found = get_commands()
        ours = {name: _says(app, name) for name, app in sorted(found.items()) if app.startswith("apps.")} | ACCOUNTS
        others = sorted(found.keys() - ours.keys())
        width = max(map(len, ours))
        return "\n".join(
            [
                "FeltDB's commands; `manage.py COMMAND --help` says more of each:",
                "",
                *(_wrapped(says, first=f"  {name:{width}}  ", then=" " * (width + 4)) for name, says in ours.items()),
                "",
                "Django's own, for those who develop FeltDB:",
                "",
                _wrapped(" ".join(others), first="  ", then="  "),
                "",
                "Daily commands: `make help`. Documentation: README.md and docs/.",
            ]
        )


def run(argv: Sequence[str]) -> None:
    """Run the command named on the command line. A setting or database that cannot be used is told in one line."""
    try:
        settings.DATA_DIR  # noqa: B018 - read first, so that a setting that cannot be used is told before anything else
        CommandLine(list(argv)).execute()
    except ImproperlyConfigured as error:
        sys.exit(f"manage.py: {error}")
    except Exception as error:
        from django.db import DatabaseError, InterfaceError

        from apps.keys.commands import database_trouble

        if not isinstance(error, DatabaseError | InterfaceError) or "--traceback" in argv:
            raise
        print(f"manage.py: {database_trouble(error)}", file=sys.stderr)
        sys.exit(STORAGE)


def _says(app: str, name: str) -> str:
    """Return the first sentence of a command's own help."""
    command: BaseCommand = load_command_class(app, name)
    return f"{command.help.split('. ')[0].rstrip('.')}."


def _wrapped(text: str, *, first: str, then: str) -> str:
    return textwrap.fill(text, COLUMNS, initial_indent=first, subsequent_indent=then, break_on_hyphens=False)
