"""Deliveries that go on where they broke off: targets that confirm rows on the way, and what a failure leaves behind.

Source: engine.md 3.5 and 4.6. The rows go out in an order that only their content decides, and a digest of the whole
relation says whether a later attempt has the same rows; else "the first n" would mean others.
"""

from __future__ import annotations

import contextlib
import hashlib

import duckdb

from pz_core.contract.connector import Sink, SqlWriteSession, WriteSession
from pz_core.contract.engine import Cancelled, Delivery, DrainTask, Progress
from pz_core.contract.resuming import CheckpointingSession
from pz_core.engines.duckdb import bookkeeping
from pz_core.engines.duckdb.loading import Batch
from pz_core.engines.duckdb.reuse import attached
from pz_core.engines.duckdb.session import Session, Work


class Checkpoints:
    """The confirmed part of one delivery.

    Args:
        engine: the engine's session.
        target: the write session.
        batch: the rows.
        task: what is delivered.
        work: of the task.
    """

    def __init__(
        self, engine: Session, target: CheckpointingSession, batch: Batch, task: DrainTask, work: Work
    ) -> None:
        self._target, self._batch, self._task, self._work = target, batch, task, work
        bookkeeping.prepare(engine, work)
        batch.settle()
        self._total, self._digest = self._fingerprint()
        self.resumed = self._resumed()
        self._known = self.resumed

    @property
    def query(self) -> str:
        """The rows that are still to be delivered."""
        return f"SELECT * FROM {self._batch.name} ORDER BY ALL OFFSET {self.resumed}"

    def before_commit(self) -> None:
        """Ask once more: a session whose commit fails may be past answering."""
        self._known = int(self._target.acknowledged())

    def done(self) -> None:
        """After the commit: nothing is left to go on from."""
        bookkeeping.forget_confirmed(self._work, self._task.node.id)

    def broke_off(self, handed: int) -> int:
        """Write down what the target has confirmed, whatever stopped the delivery.

        Args:
            handed: rows of this attempt that were handed to the session.

        Returns:
            The confirmed rows, from the start of the delivery.
        """
        try:
            rows = int(self._target.acknowledged())
        except Exception:  # noqa: BLE001 - a session that fails may be past answering; what it had before still holds
            rows = self._known
        # A target cannot have more than it was given; to believe it would lose rows.
        rows = max(0, min(rows, self.resumed + handed, self._total))
        with contextlib.suppress(duckdb.Error):
            self._keep(rows)
        return rows

    def _resumed(self) -> int:
        """Rows that an attempt before had confirmed, if they are the first ones of these rows and the target agrees."""
        entry = bookkeeping.confirmed(self._work, self._task.node.id) or self._of_earlier_runs()
        if entry is None:
            return 0
        rows, total, digest = entry
        if 0 < rows <= total and (total, digest) == (self._total, self._digest) and self._target.resume(rows):
            return rows
        self._keep(0)  # said once is said for good: what an earlier run's file has is not offered again
        return 0

    def _keep(self, rows: int) -> None:
        bookkeeping.keep_confirmed(self._work, self._task.node.id, rows, self._total, self._digest)

    def _of_earlier_runs(self) -> tuple[int, int, str] | None:
        node = self._task.node.id
        for earlier in self._task.earlier:
            try:
                with attached(self._work, earlier.staging_path, node) as catalog:
                    found = bookkeeping.confirmed(self._work, node, catalog)
            except duckdb.Error as error:
                self._work.recognise(error)
                return None  # what it had is not known, and an older file may be overtaken by it
            if found is not None:
                return found
        return None

    def _fingerprint(self) -> tuple[int, str]:
        """Number and digest of the rows, whatever order they are in."""
        row = self._work.run(
            f"SELECT count(*), coalesce(sum(hash(r)), 0)::VARCHAR, coalesce(bit_xor(hash(r)), 0)::VARCHAR "
            f"FROM {self._batch.name} AS r"
        ).fetchone()
        assert row is not None
        shape = [(column.name, column.type) for column in self._batch.columns]
        text = repr((duckdb.__version__, shape, row))
        return int(row[0]), hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def checkpoints(
    engine: Session, target: WriteSession | SqlWriteSession, batch: Batch, task: DrainTask, work: Work
) -> Checkpoints | None:
    """What a session confirms, ``None`` for one that confirms nothing before its commit."""
    if isinstance(target, SqlWriteSession) or not isinstance(target, CheckpointingSession):
        return None
    return Checkpoints(engine, target, batch, task, work)


def leave_behind(error: BaseException, sink: Sink, handed: int, confirmed: int | None) -> None:
    """Note on a fault what the failed delivery may have left in the target.

    Args:
        error: the fault.
        sink: asked what an abort leaves.
        handed: rows handed over, with those in flight.
        confirmed: rows that the target confirmed, ``None`` where it confirms none on the way.
    """
    if isinstance(error, Cancelled):
        return
    try:
        semantics = sink.abort_semantics()
    except Exception:  # noqa: BLE001 - the fault that led here is the one to tell
        return
    if semantics != "discards_all":
        Progress.leave(error, Delivery(semantics, rows_visible=handed if confirmed is None else confirmed))
