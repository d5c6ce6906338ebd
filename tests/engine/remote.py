"""A store in a process of its own that does what it is told over a pipe: to be traced, stopped or killed from outside.

    with Remote(directory) as other:
        other.commit("a:1") == "committed"

Every answer is a word or a value; an engine's error is its code, and behind a space what it says of `committed`.
"""

import contextlib
import ctypes
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from feltdb_engine import Mutation, Retention, Store, errors, limits

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.engine.crew_member", "tests.engine.remote"])
_ANY_TRACER = (0x59616D61, ctypes.c_ulong(-1))  # prctl: where the system restricts tracing, let the test's strace in


class Remote:
    """The other end."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self._pipe, far = _processes.Pipe()
        self.process = _processes.Process(target=_serve, args=(far, directory, options))
        self.process.start()
        far.close()
        self.opened = self.answer()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self.process.pid is not None
        return self.process.pid

    def ask(self, what: str, *arguments: Any) -> Any:
        """Do it and wait for the answer."""
        self.tell(what, *arguments)
        return self.answer()

    def tell(self, what: str, *arguments: Any) -> None:
        """Do it, and do not wait."""
        with contextlib.suppress(BrokenPipeError):
            self._pipe.send((what, arguments))

    def answer(self) -> Any:
        """The next answer; "died" where there is none to come."""
        assert self._pipe.poll(60)
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionError):
            return "died"

    def commit(self, key: str, size: int = 10) -> str:
        """Put a record, its id the transaction's."""
        return str(self.ask("commit", key, size))

    def get(self, key: str) -> Any:
        """True where the record is there, False, or an error's code."""
        return self.ask("get", key)

    def kill(self) -> None:
        """As `kill -9`."""
        self.process.kill()
        self.process.join(60)

    def __enter__(self) -> "Remote":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._pipe.close()


def _serve(pipe: Connection, directory: Path, options: dict[str, Any]) -> None:
    ctypes.CDLL(None).prctl(*_ANY_TRACER)
    for name, value in options.pop("limits", {}).items():
        setattr(limits, name, value)
    store: Store | None = None
    held: list[Any] = []

    def act(what: str, *arguments: Any) -> Any:
        nonlocal store
        if what == "open":
            store = Store.open(directory, **options)
            return "open"
        assert store is not None
        if what == "close":
            store.close()
            return "closed"
        if what == "commit":
            key, size = arguments
            mutation = Mutation(kind="put", collection=key[0], id=key[2:], value={"n": size, "body": "x" * size})
            store.commit([mutation], transaction_id=key)
            return "committed"
        if what == "get":
            return store.get(*arguments) is not None
        if what == "declare an index":
            return store.declare_index("a", ["n"]).complete
        if what == "drop an index":
            return store.drop_index("a", "n")
        if what == "backup":
            return store.backup(*arguments).sequence
        if what == "compact":
            return store.compact(Retention(age_ms=0, bytes=0, ids_age_ms=None)).floor
        if what == "hold a read transaction":
            held.append(store._core.view.read())
            return "held"
        if what == "storage":
            return store.health().storage
        raise AssertionError(what)

    request: tuple[str, tuple[Any, ...]] = ("open", ())
    while True:
        try:
            answer = act(request[0], *request[1])
        except errors.EngineError as error:
            answer = f"{error.code} {error.committed}"
        pipe.send(answer)
        try:
            request = pipe.recv()
        except EOFError:
            return
