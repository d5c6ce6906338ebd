"""The parent's side: contestants in processes of their own, asked one at a time, or several of them at once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.contestants import REFERENCE, REFERENCE_PROGRAM

Figures = dict[str, float]


class Process:
    """One contestant's process."""

    def __init__(self, name: str, folder: Path, *, indexed: bool, records: int, number: int = 0) -> None:
        program = [str(REFERENCE_PROGRAM)] if name == REFERENCE else [sys.executable, "-m", "benchmarks.child", name]
        self.name = name
        self._child = subprocess.Popen(
            [*program, str(folder), "1" if indexed else "0", str(number), str(records)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.receive()

    def send(self, do: str, **named: Any) -> None:
        """Begin something; its answer is to be received."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"do": do, **named}) + "\n")
        self._child.stdin.flush()

    def receive(self) -> Figures:
        """Wait for the answer; empty where the contestant cannot do that."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: its process ended with {self._child.wait()}")
        figures: Figures = json.loads(line)
        return figures

    def ask(self, do: str, **named: Any) -> Figures:
        """Send and receive."""
        self.send(do, **named)
        return self.receive()

    def end(self) -> None:
        """Let it close its store and wait for it."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()

    def kill(self) -> None:
        """End it as a crash does."""
        self._child.kill()
        self._child.wait()


def together(processes: list[Process], do: str, **named: Any) -> list[Figures]:
    """Let several do the same at the same time."""
    for process in processes:
        process.send(do, **named)
    return [process.receive() for process in processes]
