"""What every public method of a store shares: once more after a broken view was made again, else a StorageError."""

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import lmdb

from feltdb_engine import view
from feltdb_engine.errors import EngineError, StoreRebuilding


class Recovering(Protocol):
    """Something that can make a broken view again."""

    def _recover_from(self, error: StoreRebuilding | lmdb.Error) -> None:
        """Renew where the view is broken; raise what it was about where that is not possible."""

    def _read_error(self, error: OSError | lmdb.Error) -> EngineError:
        """What to raise for an error below."""


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Recovering)


def guarded(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method, tried once more after a broken view was made again; what else goes wrong below is a StorageError."""

    @functools.wraps(method)
    def call(store: S, /, *args: P.args, **named: P.kwargs) -> R:
        try:
            return method(store, *args, **named)
        except (StoreRebuilding, *view.BROKEN) as error:
            store._recover_from(error)
            return method(store, *args, **named)
        except (OSError, lmdb.Error) as error:
            raise store._read_error(error) from error

    return call
