"""Land partitions whose ids stay: each whole or not at all, so that a later attempt reads only what is missing.

Source: engine.md 2.5. The rows of a partition and the line that says it is done are one transaction, so that neither
can be there without the other. As many partitions are read at once as record batches of one node are held by plan.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import duckdb
import pyarrow as pa

from pz_core.contract.connector import ConnectorError, Partition, Source
from pz_core.contract.engine import (
    Cancelled,
    Earlier,
    LandResult,
    LandTask,
    NotReusable,
    PartitionCounts,
    Progress,
    Stalls,
)
from pz_core.engines.duckdb import arrow, bookkeeping
from pz_core.engines.duckdb.bookkeeping import PartitionLedger
from pz_core.engines.duckdb.channel import GRACE_SECONDS, MAX_READERS, Stopped
from pz_core.engines.duckdb.cursor import find_cursor, trim
from pz_core.engines.duckdb.errors import counts_disagree, edge_error, foreign_error
from pz_core.engines.duckdb.ingest import Ingest, Meter, OtherColumns, StagingTable
from pz_core.engines.duckdb.landing import account, connector_faults, subject_of
from pz_core.engines.duckdb.reuse import attached
from pz_core.engines.duckdb.session import SCHEMA, Session, Work, staged
from pz_core.errors import PzError, Where
from pz_core.values import Column, quote_path
from pz_core.values.duckdb_text import clean_message


def land_partitions(
    session: Session,
    source: Source,
    close: Callable[[], None],
    partitions: Sequence[Partition],
    batch_bytes: int,
    task: LandTask,
    work: Work,
) -> LandResult:
    """Land what no earlier attempt has landed whole.

    A fault of one partition leaves the others alone; all such faults together become one, which may pass only if each
    of them may. What is whole stays for the next attempt.

    Raises:
        ConnectorError: of the partitions, for a batch of another shape, or a fault of DuckDB.
        PzError: PZ0319, PZ0505, PZ0811, PZ0501.
        NotReusable: if what the earlier run has of this read cannot be used.
        Cancelled: if told to stop.
    """
    subject, node, target = subject_of(task), task.node.name, staged(task.relation)
    ids = _identified(partitions, subject, node)
    try:
        bookkeeping.prepare(session, work)
        landing = _Landing(session, source, batch_bytes, task, work)
        done, begun = landing.begin(ids)
        try:
            landing.carry_out([p for p in partitions if p.id not in done], begun, close)
        except OtherColumns:
            reused = any(was for _, was in done.values())
            landing.drop()
            if reused:
                raise NotReusable("its columns are not those of now") from None
            work.control.raise_if_cancelled()
            raise ConnectorError(
                f"{subject}: the columns are no longer those of an earlier attempt",
                transient=True,
                where=Where(node=node),
                hint="the next attempt reads everything again; if it stays, report it to the connector's authors",
            ) from None
        finally:
            with connector_faults(subject, node):
                close()
        return _finished(landing, ids, target, subject, node)
    except duckdb.Error as error:
        work.recognise(error)
        raise edge_error(error, subject, node) from error


def _identified(partitions: Sequence[Partition], subject: str, node: str) -> tuple[str, ...]:
    """The ids of all partitions.

    Raises:
        PzError: PZ0319, speaking of places in the list: an id may hold what is in the data.
    """
    without = [str(i) for i, p in enumerate(partitions, start=1) if not p.id]
    first: dict[str, int] = {}
    twice: list[str] = []
    for place, partition in enumerate(partitions, start=1):
        if partition.id and first.setdefault(partition.id, place) != place:
            twice.append(f"{first[partition.id]} and {place}")
    if without or twice:
        what = [f"partition {', '.join(without)} has no id"] if without else []
        what += [f"partitions {', '.join(twice)} have one id"] if twice else []
        raise PzError(
            "PZ0319",
            f"{subject}: partitions have no stable identity, so nothing was read: {'; '.join(what)} "
            f"(of {len(partitions)})",
            where=Where(node=node),
            hint="report it to the connector's authors: it promises ids that stay",
        )
    return tuple(p.id for p in partitions if p.id)


def _finished(landing: _Landing, ids: Sequence[str], target: str, subject: str, node: str) -> LandResult:
    """Cut, count and measure what all partitions together have landed."""
    task, work = landing.task, landing.work
    entries = landing.ledger.entries()
    if len(entries) != len(ids):
        raise counts_disagree(subject, node, partitions=len(ids), whole=len(entries))
    total = sum(rows for _, rows, _ in entries.values())
    reused = [rows for _, rows, was in entries.values() if was]
    with work.transaction():
        columns = work.columns(target)
        trimmed = trim(work, target, columns, task, subject)
        account(work, target, total, trimmed, subject, node)
        found = find_cursor(work, target, columns, task, subject)
        if trimmed:
            landing.ledger.clear()  # the table no longer holds what the lines say
    counts = PartitionCounts(len(ids), len(entries), len(reused), sum(reused))
    return LandResult(
        total - sum(reused),
        total - trimmed,
        columns,
        trimmed,
        "universal",
        landing.stalls(),
        cursor=found,
        partitions=counts,
    )


class _Landing:
    """One attempt of a read in partitions."""

    def __init__(self, session: Session, source: Source, batch_bytes: int, task: LandTask, work: Work) -> None:
        self.task, self.work = task, work
        self.ledger = PartitionLedger(work, task.relation)
        self._session, self._source, self._batch_bytes = session, source, batch_bytes
        self._target = staged(task.relation)
        self._subject, self._node = subject_of(task), task.node.name
        self._scope = bookkeeping.scope_of(task)
        self._meter = Meter(work)
        self._state = threading.Condition()
        self._todo: deque[Partition] = deque()
        self._alive = 0
        self._stopped = False
        self._ids: tuple[str, ...] = ()
        self._faults: dict[str, PzError] = {}
        self._breakdown: BaseException | None = None
        self._reading = 0.0
        self._writing = 0.0

    # --- what is there already -----------------------------------------------------------------------------------

    def begin(self, ids: Sequence[str]) -> tuple[dict[str, tuple[int, bool]], tuple[Column, ...] | None]:
        """What an earlier attempt of this run, else the earlier run, has whole.

        Returns:
            Id -> rows, and whether an earlier run read them; and the columns of the table, if it has been made.

        Raises:
            NotReusable: if the earlier run has something that cannot be used.
        """
        self._ids = tuple(ids)
        entries = self.ledger.entries()
        if entries and self._fits(entries, ids):
            held = self.work.count(f"SELECT count(*) FROM {self._target}")
            if held == sum(rows for _, rows, _ in entries.values()):
                return {id: (rows, was) for id, (_, rows, was) in entries.items()}, self.work.columns(self._target)
        self.drop()
        taken = {} if self.task.earlier is None else self._take_over(self.task.earlier, ids)
        if not taken:
            return {}, None
        return {id: (rows, True) for id, rows in taken.items()}, self.work.columns(self._target)

    def drop(self) -> None:
        """Forget everything of this read."""
        self.ledger.clear()
        self.work.run(f"DROP TABLE IF EXISTS {self._target}")

    def _fits(self, entries: dict[str, tuple[str, int, bool]], ids: Sequence[str]) -> bool:
        return entries.keys() <= set(ids) and all(scope == self._scope for scope, _, _ in entries.values())

    def _take_over(self, earlier: Earlier, ids: Sequence[str]) -> dict[str, int]:
        work, relation = self.work, self.task.relation
        try:
            with attached(work, earlier.staging_path, self.task.node.id) as catalog:
                entries = PartitionLedger(work, relation, catalog).entries()
                if not entries:
                    return {}
                if any(scope != self._scope for scope, _, _ in entries.values()):
                    raise NotReusable("its partitions are of another slice, or of a read with other columns or filters")
                if not entries.keys() <= set(ids):
                    raise NotReusable("the read is split otherwise now")
                with work.transaction():
                    work.run(f"CREATE TABLE {self._target} AS FROM {quote_path(catalog, SCHEMA, relation)}")
                    held, recorded = work.count(f"SELECT count(*) FROM {self._target}"), 0
                    for id, (scope, rows, _) in entries.items():
                        recorded += rows
                        self.ledger.add(work, scope, id, rows, reused=True)
                    if held != recorded:
                        raise NotReusable(f"{recorded} rows were recorded for its partitions and {held} are there")
                work.rearm()
        except duckdb.Error as error:
            work.recognise(error)
            raise NotReusable(f"DuckDB cannot read its staging file: {clean_message(str(error))}") from error
        return {id: rows for id, (_, rows, _) in entries.items()}

    # --- reading -------------------------------------------------------------------------------------------------

    def carry_out(
        self, partitions: Sequence[Partition], begun: tuple[Column, ...] | None, close: Callable[[], None]
    ) -> None:
        """Read partitions on a few threads; returns when each is whole.

        Raises:
            OtherColumns: if the batches do not go into the table that is there.
            PzError, duckdb.Error, Cancelled: see :func:`land_partitions`.
        """
        self._todo.extend(partitions)
        table = StagingTable(self._source, self.task, self._target, begun)
        workers = min(MAX_READERS, len(partitions))
        self._alive = workers
        self.work.also_on_cancel(self._stop)
        threads = [
            threading.Thread(target=self._worker, args=(table, workers), name=f"pz-part-{i}", daemon=True)
            for i in range(workers)
        ]
        for thread in threads:
            thread.start()
        with self._state:
            self._state.wait_for(lambda: self._alive == 0 or self._stopped)
        if self._alive:
            # A reader that hangs is waited for, then its source is closed under it, and it is waited for once more.
            _join(threads)
            with connector_faults(self._subject, self._node):
                close()
            _join(threads)
        self._raise()

    def stalls(self) -> Stalls:
        """Readers wait while DuckDB inserts, the ingest while they read; added up over all partitions."""
        return Stalls(round(self._writing * 1000), round(self._reading * 1000))

    def _stop(self) -> None:
        with self._state:
            self._stopped = True
            self._state.notify_all()

    def _raise(self) -> None:
        self.work.control.raise_if_cancelled()
        if self._breakdown is not None:
            raise self._breakdown
        if self._faults:
            faults = [self._faults[id] for id in self._ids if id in self._faults]
            error = _combined(faults, len(self._ids), self._subject, self._node)
            entries = self.ledger.entries().values()
            reused = [rows for _, rows, was in entries if was]
            Progress.leave(error, PartitionCounts(len(self._ids), len(entries), len(reused), sum(reused)))
            raise error

    def _worker(self, table: StagingTable, workers: int) -> None:
        breakdown: BaseException | None = None
        try:
            while not self._stopped:
                try:
                    partition = self._todo.popleft()
                except IndexError:
                    break
                try:
                    self._one(partition, table, self._batch_bytes // workers)
                except _ReadFault as fault:
                    self._faults[partition.id or ""] = fault.error
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again in the node's own thread
            breakdown = error
        with self._state:
            self._alive -= 1
            if breakdown is not None and not self._stopped:
                self._breakdown, self._stopped = breakdown, True
            self._state.notify_all()

    def _one(self, partition: Partition, table: StagingTable, hold_bytes: int) -> None:
        rows = arrow.batch_rows(self._batch_bytes, len(self.task.read.columns) if self.task.read.columns else None)
        with self._session.task(self.work.control) as mine, self._reader(partition, rows) as batches:
            batch = self._next(batches)
            if batch is None:
                StagingTable(self._source, self.task, self._target).refuse_nothing()
            assert batch is not None
            table.admit(mine, batch)
            ingest = Ingest(mine, table, hold_bytes, self._meter)
            with mine.transaction():
                while batch is not None:
                    began = time.monotonic()
                    ingest.take(batch)
                    self._writing += time.monotonic() - began
                    batch = self._next(batches)
                ingest.flush()
                assert partition.id is not None  # looked at before anything was read
                self.ledger.add(mine, self._scope, partition.id, ingest.rows)
                if self._stopped:
                    raise Stopped

    @contextlib.contextmanager
    def _reader(self, partition: Partition, rows: int) -> Iterator[Iterator[pa.RecordBatch]]:
        try:
            batches = iter(self._source.read(self.task.read, partition, rows))
        except Exception as error:  # whatever a connector raises is this partition's fault
            raise self._fault(error) from error
        try:
            yield batches
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                with contextlib.suppress(Exception):
                    close()

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        if self._stopped:
            raise Stopped
        began = time.monotonic()
        try:
            return next(batches, None)
        except Exception as error:  # whatever a connector raises is this partition's fault
            raise self._fault(error) from error
        finally:
            self._reading += time.monotonic() - began

    def _fault(self, error: Exception) -> Exception:
        if isinstance(error, Cancelled):
            return error
        if isinstance(error, PzError):
            return _ReadFault(error)
        return _ReadFault(foreign_error(error, self._subject, self._node))


class _ReadFault(Exception):
    """A partition could not be read; the others are not touched by it."""

    def __init__(self, error: PzError) -> None:
        super().__init__(error.message)
        self.error = error


def _join(threads: Sequence[threading.Thread]) -> None:
    until = time.monotonic() + GRACE_SECONDS
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _combined(faults: Sequence[PzError], total: int, subject: str, node: str) -> PzError:
    """One fault for all partitions that could not be read."""
    first = faults[0]
    if len(faults) == 1:
        first.where = Where(node=node)
        return first
    waits = [fault.retry_after for fault in faults if isinstance(fault, ConnectorError) and fault.retry_after]
    codes = {fault.code for fault in faults}
    return ConnectorError(
        f"{subject}: {len(faults)} of {total} partitions could not be read, the first one: {first.message}",
        transient=all(isinstance(fault, ConnectorError) and fault.transient for fault in faults),
        retry_after=max(waits, default=None),
        code=first.code if len(codes) == 1 else "PZ0501",
        where=Where(node=node),
        hint=first.hint or "an attempt later, and pz retry too, reads only the partitions that are missing",
        cause=first,
    )
