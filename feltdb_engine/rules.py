"""What a store keeps by its records and holds them to: the declared indexes, the contract. Part of `Store`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import lmdb

from feltdb_engine import activating
from feltdb_engine.contract import parse
from feltdb_engine.core import Core
from feltdb_engine.declaring import Declarer
from feltdb_engine.errors import EngineError, StoreRebuilding
from feltdb_engine.guard import guarded
from feltdb_engine.model import ContractInfo, ContractReport, IndexInfo, JSONObject
from feltdb_engine.moment import Moment
from feltdb_engine.past import Past
from feltdb_engine.walk import Progress
from feltdb_engine.writer import Writer


class Rules:
    """Methods of `Store`; it brings the open parts."""

    _core: Core
    _writer: Writer
    _declarer: Declarer
    _max_payload: int

    def snapshot(self) -> Past:
        """See `Store`."""
        raise NotImplementedError

    def _moment(self, collections: Sequence[str], deadline: float | None) -> AbstractContextManager[Moment]:
        raise NotImplementedError

    def _recover_from(self, error: StoreRebuilding | lmdb.Error) -> None:
        raise NotImplementedError

    def _read_error(self, error: OSError | lmdb.Error) -> EngineError:
        raise NotImplementedError

    @guarded
    def declare_index(
        self, collection: str, fields: Sequence[str], *, name: str | None = None, until: float | None = None
    ) -> IndexInfo:
        """Declare an index over one to four fields and build it while others read and write; returns once complete.

        `until`, in `time.monotonic()` seconds, leaves a longer build where it has come to. The same declaration again
        changes nothing, and goes on with a build that was left. Raises InvalidQuery.
        """
        self._refuse_read_only()
        return self._declarer.declare(collection, fields, name, until)

    @guarded
    def drop_index(self, collection: str, name: str, *, until: float | None = None) -> bool:
        """Drop an index; False where there is none of that name. What is left to remove at `until` goes later."""
        self._refuse_read_only()
        return self._declarer.drop(collection, name, until)

    @guarded
    def indexes(self, collection: str | None = None) -> list[IndexInfo]:
        """The declared indexes, oldest first."""
        return self._declarer.all(collection)

    @guarded
    def contract(self) -> ContractInfo:
        """The contract in force (`contract.py` has its shape)."""
        return activating.info(self._core)

    @guarded
    def check_contract(
        self, contract: JSONObject, *, deadline: float | None = None, progress: Progress | None = None
    ) -> ContractReport:
        """How many records, as of now, would break a contract, rule by rule, with samples. Nothing is changed.

        `progress(done, total)` is called with records. Needs room for what is unique in the temporary directory. Raises
        ContractInvalid.
        """
        return activating.check(parse(contract), self.snapshot()._moment, deadline, progress)

    @guarded
    def activate_contract(
        self,
        contract: JSONObject,
        *,
        if_revision: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> ContractInfo:
        """Hold all records to a contract from now on, in place of the one before, while others read and write.

        Raises, and nothing is changed then: ContractInvalid, ContractBroken with the report where stored records break
        it, ContractConflict where the one before is not `if_revision` or another activation came in between,
        DeadlineExceeded.
        """
        self._refuse_read_only()
        past = self.snapshot()
        activating.Activation(self._core, self._writer, self._declarer, parse(contract), self._max_payload).run(
            past._moment, past.revision, self._moment, if_revision, deadline, progress
        )
        return activating.info(self._core)

    @guarded
    def withdraw_contract(self) -> bool:
        """Let go of a contract that a process proposed and died over; False where there is none."""
        self._refuse_read_only()
        return activating.withdraw(self._writer)

    def _refuse_read_only(self) -> None:
        raise NotImplementedError
