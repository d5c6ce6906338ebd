"""What every contestant can do. What one cannot do raises NotImplementedError, and its cell stays empty."""

from pathlib import Path
from typing import Any

Value = dict[str, object]
Item = tuple[str, Value]


class Contestant:
    """One open store. Every `commit` is atomic and forced before it returns. `indexed`: by status and owner."""

    many_processes = True

    def __init__(self, folder: Path, indexed: bool) -> None:
        self.folder = folder
        self.indexed = indexed

    def commit(self, items: list[Item]) -> None:
        """Put all items (distinct ids) in one transaction, a version each and an operation in the log."""
        raise NotImplementedError

    def compare_and_set(self, items: list[Item]) -> bool:
        """Read the versions; then, in one transaction, write only if none has moved."""
        raise NotImplementedError

    def get(self, record_id: str) -> Any:
        """Return the decoded value."""
        raise NotImplementedError

    def page(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` ids after `after`, their values decoded on the way."""
        raise NotImplementedError

    def changes(self, after: int, limit: int) -> int:
        """Read up to `limit` operations after sequence `after`, decoded; return the last sequence read."""
        raise NotImplementedError

    def query(self, status: str, owner: str, limit: int) -> int:
        """Return how many of up to `limit` records have that status and owner, decoded."""
        raise NotImplementedError

    def compact(self) -> float:
        """Let go of all history; return the seconds it took."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the files."""
        raise NotImplementedError
