"""What the commands of this room read from the command line: spans, instants, secrets. And how a secret leaves it."""

import argparse
import getpass
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apps.keys.limits import MAX_PAGE, MAX_TOKEN_CHARS

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class SecretFileRefused(Exception):
    """A file that a secret cannot be written to or read from; the message is for the operator."""


def words(values: list[str] | None) -> list[str]:
    """Return the names in options that may be repeated and hold several, by commas."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def duration(text: str) -> timedelta:
    """Return the span that the argument is."""
    match = re.fullmatch(r"([0-9]{1,7})([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError("write a whole number and s, m, h or d, for example 90d")
    return timedelta(**{_UNITS[match.group(2)]: int(match.group(1))})


def life(text: str) -> timedelta:
    """Return the span, which is not nothing."""
    span = duration(text)
    if not span:
        raise argparse.ArgumentTypeError("write a whole number above 0 and s, m, h or d, for example 90d")
    return span


def instant(text: str) -> datetime:
    """Return the instant that the argument is."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("write an instant such as 2027-01-31T00:00:00Z") from error
    if given.tzinfo is None:
        raise argparse.ArgumentTypeError("name the time zone, for example 2027-01-31T00:00:00Z")
    return given.astimezone(UTC)


def page_size(text: str) -> int:
    """Return the number of rows that the argument is."""
    if not text.isdecimal() or not 1 <= int(text) <= MAX_PAGE:
        raise argparse.ArgumentTypeError(f"write a whole number from 1 to {MAX_PAGE}")
    return int(text)


class NewSecretFile:
    """A file taken for a secret before the secret is made: one that cannot be written is never issued."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            raise SecretFileRefused(f"{path} is there already; a secret never overwrites a file") from None
        except OSError as error:
            raise SecretFileRefused(f"the secret file cannot be made: {error}") from error

    def write(self, secret: str) -> None:
        """Write the secret, forced."""
        with os.fdopen(self._descriptor, "w", encoding="ascii") as handle:
            handle.write(secret + "\n")
            handle.flush()
            os.fsync(handle.fileno())

    def give_up(self) -> None:
        """Remove the file again."""
        with suppress(OSError):
            os.close(self._descriptor)
        self.path.unlink(missing_ok=True)


@contextmanager
def secret_to(path: Path | None) -> Iterator[NewSecretFile | None]:
    """Take the file, if one is named; it is gone again where what follows fails."""
    file = None if path is None else NewSecretFile(path)
    try:
        yield file
    except BaseException:
        if file is not None:
            file.give_up()
        raise


def read_secret(path: Path | None) -> str:
    """Return the secret in the file, or on standard input; a person at a terminal is asked, and nothing is shown."""
    if path is not None:
        try:
            with path.open(encoding="utf-8", errors="replace") as handle:
                return handle.read(MAX_TOKEN_CHARS + 2).strip()
        except OSError as error:
            raise SecretFileRefused(f"the secret file cannot be read: {error}") from error
    if sys.stdin.isatty():
        return getpass.getpass("key: ").strip()
    return sys.stdin.readline(MAX_TOKEN_CHARS + 2).strip()
