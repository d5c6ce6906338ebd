#!/usr/bin/env python
"""The command line of an instance. See `make help` for the daily commands."""

import os
import sys


def main() -> None:
    """Run the management command named on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "feltsite.settings")
    try:
        import django  # noqa: F401
    except ModuleNotFoundError:
        sys.exit(
            f"manage.py: {sys.executable} has no Django. Run it as .venv/bin/python manage.py; "
            "'make run' makes .venv where it is missing"
        )
    from feltsite import command_line

    command_line.run(sys.argv)


if __name__ == "__main__":
    main()
