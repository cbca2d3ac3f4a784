"""Land in Arrow batches, several partitions at once.

Source: engine.md 2.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import duckdb
import pyarrow as pa

from pz_core.contract.connector import ConnectorError, Partition, Source
from pz_core.contract.engine import LandResult, LandTask, Stalls
from pz_core.engines.duckdb import arrow
from pz_core.engines.duckdb.channel import Readers, Stopped
from pz_core.engines.duckdb.cursor import find_cursor, trim
from pz_core.engines.duckdb.errors import edge_error, foreign_error
from pz_core.engines.duckdb.landing import account, connector_faults, subject_of
from pz_core.engines.duckdb.session import Work, staged
from pz_core.values import Column, quote_identifier

_PROGRESS_BATCHES = 10
#: Rows of one INSERT: enough row groups to keep several threads busy.
_STATEMENT_ROWS = 4 * arrow.MAX_BATCH_ROWS
#: The type of a column of nothing but NULL, which a table holds as INTEGER; inside a STRUCT it may be a name instead.
_NULL_TYPE = re.compile(r'"NULL"(?=[,)\[]|$)')
_INCOMING = "pz_incoming"


def land_batches(source: Source, close: Callable[[], None], batch_bytes: int, task: LandTask, work: Work) -> LandResult:
    """Land what the source's partitions read; after a failure nothing of it is visible.

    Raises:
        ConnectorError: of a reader, for a batch of another shape, or a fault of DuckDB.
        PzError: PZ0505, PZ0811, PZ0501.
        Cancelled: if told to stop.
    """
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
            account(work, target, ingest.rows, trimmed, subject, node)
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
