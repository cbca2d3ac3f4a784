"""Land: an entity's rows become ``staging.<relation>``, by a scan of DuckDB's own or in Arrow batches.

Sources: engine.md 2.2 and 2.4, DECISIONS 10 (a floor that the connector cannot push is cut after landing).
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator

import duckdb
import pyarrow as pa

from pz_core.contract.connector import (
    ConnectorError,
    NativeScan,
    Partition,
    ReadHints,
    SettlingSource,
    Source,
    resolved_scan,
)
from pz_core.contract.engine import Cancelled, Host, LandResult, LandTask, Stalls
from pz_core.contract.refusals import is_trip
from pz_core.engines.duckdb import arrow
from pz_core.engines.duckdb.channel import Readers, Stopped
from pz_core.engines.duckdb.cursor import find_cursor, trim
from pz_core.engines.duckdb.errors import counts_disagree, edge_error, foreign_error, is_transient
from pz_core.engines.duckdb.hints import with_fitting_hints
from pz_core.engines.duckdb.reuse import reuse
from pz_core.engines.duckdb.session import Session, Work, staged
from pz_core.errors import PzError, PzErrors, Where
from pz_core.values import Column, quote_identifier

_PROGRESS_BATCHES = 10
#: Rows of one INSERT: enough row groups to keep several threads busy.
_STATEMENT_ROWS = 4 * arrow.MAX_BATCH_ROWS
#: The type of a column of nothing but NULL, which a table holds as INTEGER; inside a STRUCT it may be a name instead.
_NULL_TYPE = re.compile(r'"NULL"(?=[,)\[]|$)')
_INCOMING = "pz_incoming"


def subject_of(task: LandTask) -> str:
    """``connection.entity``."""
    return f"{task.connection}.{task.read.entity}"


def land(session: Session, host: Host, batch_bytes: int, task: LandTask, work: Work) -> LandResult:
    """Land one entity; after a failure nothing of it is visible.

    Raises:
        ConnectorError: what the connector said, or a fault of DuckDB on the connector's scan.
        PzError: PZ0311, PZ0505, PZ0811, PZ0812, PZ0501.
        NotReusable: if the task asks for an earlier run's rows and they cannot be had.
        Cancelled: if told to stop.
    """
    if task.reuse is not None:
        return reuse(task, task.reuse, work)
    subject, node = subject_of(task), task.node.name
    with connector_faults(subject, node):
        source = host.connector(task.connection).open_source()
    with contextlib.ExitStack() as ends:
        closing = ends.enter_context(_closing(source, subject, node))
        with connector_faults(subject, node):
            task = with_fitting_hints(session, source, task, work, subject)
        if task.tier == "native":
            with connector_faults(subject, node):
                scan = resolved_scan(source, task.read)
            if scan is not None:
                return _native(session, source, task, work, scan)
        return _universal(source, closing, batch_bytes, task, work)


@contextlib.contextmanager
def connector_faults(subject: str, node: str) -> Iterator[None]:
    """Let coded faults and DuckDB's own through, and name whatever else a connector lets escape."""
    try:
        yield
    except (PzError, PzErrors, Cancelled, Stopped, duckdb.Error):
        raise
    except Exception as error:
        raise foreign_error(error, subject, node) from error


@contextlib.contextmanager
def _closing(source: Source, subject: str, node: str) -> Iterator[Callable[[], None]]:
    """Close a source once, whoever comes first; a fault of closing never hides the one before it."""
    closed = False

    def close() -> None:
        nonlocal closed
        if not closed:
            closed = True
            with connector_faults(subject, node):
                source.close()

    try:
        yield close
    except BaseException:
        with contextlib.suppress(PzError, PzErrors):
            close()
        raise
    close()


def _native(session: Session, source: Source, task: LandTask, work: Work, scan: NativeScan) -> LandResult:
    subject, node = subject_of(task), task.node.name
    session.set_up(work, scan.setup, subject, node)
    if scan.guarded and isinstance(source, SettlingSource):
        try:
            return _scanned(task, work, scan)
        except duckdb.Error as error:
            work.recognise(error)
            if not _worth_settling(error):
                raise edge_error(error, subject, node) from error
        work.rearm()
        with connector_faults(subject, node):
            settled = source.settle_scan(dataclasses.replace(task.read, hints=ReadHints()))
        if settled is None:
            raise ConnectorError(
                f"{subject}: its types cannot be settled",
                where=Where(node=node),
                hint="a connector whose scan is guarded must be able to settle it; tell its authors",
            )
        session.set_up(work, settled.setup, subject, node)
        scan = settled
    try:
        return _scanned(task, work, scan)
    except duckdb.Error as error:
        work.recognise(error)
        raise edge_error(error, subject, node) from error


def _worth_settling(error: duckdb.Error) -> bool:
    """Whether the failure of a guarded scan may be one of the data: its source tells it better, or lands it after all."""
    machine = (duckdb.OutOfMemoryException, duckdb.FatalException, duckdb.InternalException, duckdb.InterruptException)
    return is_trip(str(error)) or not (isinstance(error, machine) or is_transient(str(error)))


def _scanned(task: LandTask, work: Work, scan: NativeScan) -> LandResult:
    subject, node, target = subject_of(task), task.node.name, staged(task.relation)
    with work.transaction():
        read = work.count(f"CREATE OR REPLACE TABLE {target} AS\n{scan.query}")
        if scan.rejects is not None:
            _refuse_rejects(work, scan.rejects, subject, node)
        columns = work.columns(target)
        trimmed = trim(work, target, columns, task, subject)
        _account(work, target, read, trimmed, subject, node)
        found = find_cursor(work, target, columns, task, subject)
    return LandResult(read, read - trimmed, columns, trimmed, "native", cursor=found)


def _refuse_rejects(work: Work, sql: str, subject: str, node: str) -> None:
    row = work.run(sql).fetchone()
    if not row or not row[0]:
        return
    told = row[1] if len(row) > 1 else None
    detail = f"{row[0]} values are not what their columns declare" if told is None else str(told)
    raise ConnectorError(
        f"{subject}: {detail}",
        code="PZ0812",
        where=Where(node=node),
        hint="declare the column in columns: with a type that holds every value (varchar does), or mend the data",
    )


def _account(work: Work, target: str, read: int, trimmed: int, subject: str, node: str) -> None:
    """Before the commit: the table must hold the rows that were read and not trimmed, whatever statements said."""
    staged_rows = work.count(f"SELECT count(*) FROM {target}")
    if staged_rows != read - trimmed:
        raise counts_disagree(subject, node, read=read, trimmed=trimmed, staged=staged_rows)


# --- batches ---------------------------------------------------------------------------------------------------------


def _universal(source: Source, close: Callable[[], None], batch_bytes: int, task: LandTask, work: Work) -> LandResult:
    subject, node, target = subject_of(task), task.node.name, staged(task.relation)
    rows = arrow.batch_rows(batch_bytes, len(task.read.columns) if task.read.columns else None)
    with connector_faults(subject, node):
        partitions = tuple(source.partitions(task.read)) or (Partition(),)

    def read(partition: Partition) -> Iterator[pa.RecordBatch]:
        return source.read(task.read, partition, rows)

    readers = Readers(partitions, read)
    work.also_on_cancel(readers.channel.stop)
    ingest = _Ingest(work, source, task, target, batch_bytes)
    readers.start()
    try:
        with work.transaction():
            with connector_faults(subject, node):
                ingest.run(readers)
            columns = work.columns(target)
            trimmed = trim(work, target, columns, task, subject)
            _account(work, target, ingest.rows, trimmed, subject, node)
            found = find_cursor(work, target, columns, task, subject)
    except Stopped as error:
        work.control.raise_if_cancelled()
        raise foreign_error(error, subject, node) from error
    except duckdb.Error as error:
        work.recognise(error)
        raise edge_error(error, subject, node) from error
    finally:
        readers.close(close)
    channel = readers.channel
    stalls = Stalls(round(channel.producer_wait * 1000), round(channel.consumer_wait * 1000))
    return LandResult(ingest.rows, ingest.rows - trimmed, columns, trimmed, "universal", stalls, cursor=found)


class _Ingest:
    """Takes batches out of the channel into the staging table, small ones together: a statement has its price.

    Each INSERT gets a table of batches that are there, a few row groups or ``batch_bytes`` bytes. A stream would
    be simpler, but DuckDB hands streams to an Arrow scanner that reads far ahead of it, and then memory is not bounded.
    """

    def __init__(self, work: Work, source: Source, task: LandTask, target: str, batch_bytes: int) -> None:
        self._work = work
        self._source = source
        self._task = task
        self._target = target
        self._schema: pa.Schema | None = None
        self._batch_bytes = batch_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0
        self.rows = 0
        self._bytes = 0
        self._batches = 0

    def run(self, readers: Readers) -> None:
        """Ingest until all readers have ended.

        Raises:
            ConnectorError: of a reader, or for a batch of another shape.
            Stopped: if the task was cancelled.
        """
        subject = subject_of(self._task)
        while taken := readers.channel.take(arrow.MAX_BATCH_ROWS, self._batch_bytes):
            self._work.control.raise_if_cancelled()
            for batch in taken:
                if self._schema is None:
                    self._create(batch)
                else:
                    arrow.refuse_other_shape(self._schema, batch.schema, subject)
                self._hold(batch)
        self._insert()
        if self._schema is None:
            raise ConnectorError(
                f"{subject}: the connector gave no batch, so that the columns are not known",
                hint="a read without rows must still yield one empty batch; report it to the connector's authors",
            )

    def _create(self, batch: pa.RecordBatch) -> None:
        self._schema = batch.schema
        self._work.control.raise_if_cancelled()
        self._work.cursor.register(_INCOMING, pa.Table.from_batches([batch.slice(0, 0)]))
        columns = self._work.columns(f"(SELECT * FROM {_INCOMING})")
        enums = self._enums(batch.schema, columns) if any(map(arrow.holds_dictionary, batch.schema.types)) else {}
        # Never CREATE TABLE AS over an empty batch, and never INSERT one: DuckDB 1.5.5 then loses, without a word, the
        # rows of a later INSERT in the same transaction that fills a row group.
        types = {c.name: _NULL_TYPE.sub("INTEGER", enums.get(c.name, c.type)) for c in columns}
        body = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in types.items())
        self._work.run(f"CREATE OR REPLACE TABLE {self._target} ({body})")

    def _enums(self, schema: pa.Schema, columns: tuple[Column, ...]) -> dict[str, str]:
        try:
            declared = {c.name: c.type for c in self._source.schema(self._task.read)}
        except ConnectorError:
            return {}  # the text is right without it; only the narrower type is not known
        return arrow.enum_types(schema, columns, declared)

    def _hold(self, batch: pa.RecordBatch) -> None:
        """Keep a batch until there is enough for a statement."""
        self._batches += 1
        self._bytes += batch.nbytes
        self.rows += batch.num_rows
        if batch.num_rows:
            rows, size = self._held_rows + batch.num_rows, self._held_bytes + batch.nbytes
            if self._held and (rows > _STATEMENT_ROWS or size > self._batch_bytes):
                self._insert()
            self._held.append(batch)
            self._held_rows += batch.num_rows
            self._held_bytes += batch.nbytes
            if self._held_rows >= _STATEMENT_ROWS or self._held_bytes >= self._batch_bytes:
                self._insert()
        if self._batches % _PROGRESS_BATCHES == 0:
            self._work.control.progress(self.rows, self._bytes, self._batches)

    def _insert(self) -> None:
        if not self._held or self._schema is None:
            return
        names = self._schema.names
        same = [b if b.schema.names == names else b.rename_columns(names) for b in self._held]
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        for group in _of_one_schema(same):
            self._work.cursor.register(_INCOMING, pa.Table.from_batches(group))
            self._work.run(f"INSERT INTO {self._target} SELECT * FROM {_INCOMING}")
        self._work.cursor.unregister(_INCOMING)


def _of_one_schema(batches: list[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Neighbours that agree in everything (nullability and metadata too), so that they make one Arrow table."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        if group and not batch.schema.equals(group[0].schema):
            yield group
            group = []
        group.append(batch)
    yield group
