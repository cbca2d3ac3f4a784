"""The engine ``duckdb``."""

from __future__ import annotations

from typing import ClassVar

from pz_core.contract.engine import (
    CheckOutcome,
    CheckTask,
    Control,
    DrainResult,
    DrainTask,
    EngineSettings,
    Host,
    LandResult,
    LandTask,
    MaterialiseResult,
    MaterialiseTask,
    Moved,
)
from pz_core.contract.ledger import LedgerState
from pz_core.engines.duckdb.checks import check
from pz_core.engines.duckdb.drain import drain
from pz_core.engines.duckdb.land import land
from pz_core.engines.duckdb.materialise import materialise
from pz_core.engines.duckdb.session import Session


class DuckDBEngine:
    """Carries tasks out in one DuckDB of this process. Calls may come from any thread; each has a cursor of its own.

    The run's file is never checkpointed. A write-ahead log stays beside it, and a read-only ATTACH reads both, also
    after the process was killed.

    Args:
        settings: where the run's file is and what DuckDB may use.
        host: hands out connectors, strategies and checks.

    Raises:
        PzError: PZ0501 if a setting is refused or the file cannot be opened.
    """

    name: ClassVar[str] = "duckdb"

    def __init__(self, settings: EngineSettings, host: Host) -> None:
        self._settings = settings
        self._host = host
        self._session = Session(settings)

    def land(self, task: LandTask, control: Control) -> LandResult:
        """Bring an entity's rows into ``staging``; after a failure nothing of them is visible.

        Raises:
            ConnectorError: with ``transient`` set if a later attempt may succeed.
            PzError: PZ0311, PZ0505, PZ0811, PZ0812, PZ0501.
            Cancelled: if told to stop.
        """
        with self._session.task(control) as work:
            return land(self._session, self._host, self._settings.batch_bytes, task, work)

    def materialise(self, task: MaterialiseTask, control: Control) -> MaterialiseResult:
        """Make a pipeline's relation.

        Raises:
            PzError: PZ0501 in DuckDB's words.
            Cancelled: if told to stop.
        """
        with self._session.task(control) as work:
            return materialise(task, work)

    def check(self, task: CheckTask, control: Control) -> CheckOutcome:
        """Count the violations of a rule.

        Raises:
            PzError: PZ0501 if a query of the check cannot run.
            Cancelled: if told to stop.
        """
        with self._session.task(control) as work:
            return check(self._host, task, work)

    def drain(self, task: DrainTask, control: Control) -> DrainResult:
        """Load a relation into its target: all of it, or nothing as far as the place allows.

        Raises:
            ConnectorError: with ``transient`` set if a later attempt may succeed.
            PzError: PZ0521 and other codes of probes, PZ0804, PZ0811, PZ0812, PZ0324, PZ0501.
            Cancelled: if told to stop before the commit.
        """
        with self._session.task(control) as work:
            return drain(self._session, self._host, self._settings.batch_bytes, task, work)

    def move(self, land: LandTask, make: MaterialiseTask, drain: DrainTask, control: Control) -> Moved:
        """Carry out a landing, the one view on it and the one load of the view in a single pass.

        Raises:
            NotMoved: if it cannot be done so, or went wrong in any way. Nothing is staged.
            Cancelled: if told to stop before the commit.
        """
        from pz_core.engines.duckdb.passing import move

        with self._session.task(control) as work:
            return move(self._session, self._host, self._settings.batch_bytes, land, make, drain, work)

    def open_ledger(self, task: DrainTask, control: Control) -> LedgerState:
        """Make the ledger of a task's target if there is none, and read what it says of the task's output.

        Raises:
            ConnectorError: with ``transient`` set if a later attempt may succeed.
            PzError: PZ0324 if the target has no place for it, PZ0311.
            Cancelled: if told to stop.
        """
        from pz_core.engines.duckdb.ledger import open_ledger

        with self._session.task(control) as work:
            return open_ledger(self._session, self._host, task, work)

    def close(self) -> None:
        """Stop what still runs and release the file."""
        self._session.close()
