"""A forked child never uses its parent's stores: they answer STORE_FORKED there, and their lock descriptors are closed.

Closing does not unlock: the lock belongs to the description the parent still holds. Were the descriptors left open, a
child that outlives its parent would keep the turn for ever.
"""

import os
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from lmdb import _envid


class Forkable(Protocol):
    """A store, as far as a fork matters to it."""

    def forked(self) -> None:
        """Called in the child, before anything else runs there."""


_stores: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_abandoned: list[object] = []  # in a child: never collected, so that nothing of the parent's is closed by accident


def watch(store: Forkable) -> None:
    """Tell the store when this process is a forked child of the one that opened it."""
    _stores.add(store)


def abandon(core: object) -> None:
    """Keep what belongs to the parent until this child ends."""
    _abandoned.append(core)


def _in_child() -> None:
    for store in list(_stores):
        store.forked()
    _stores.clear()
    _tell_environments_apart()


def _tell_environments_apart() -> None:
    """Let the child open environments its parent has open.

    lmdb refuses to open a file twice in a process, by a set of file identities, which a child inherits although LMDB's
    locks are its parent's. It cannot close those environments either: that would free the parent's reader slots in
    shared memory. So identities taken in the child say that they are the child's.
    """
    inherited: Callable[[Any, bool], tuple[Hashable, ...]] = _envid.env_keys
    pid = os.getpid()

    def env_keys(path: Any, subdir: bool) -> tuple[Hashable, ...]:
        return tuple((pid, key) for key in inherited(path, subdir))

    _envid.env_keys = env_keys


os.register_at_fork(after_in_child=_in_child)
