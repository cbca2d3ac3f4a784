"""Record batches into a staging table, small ones together: a statement has its price.

Several readers may fill one table at once, each in a transaction of its own; the first batch of any of them makes it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pyarrow as pa

from pz_core.contract.connector import ConnectorError, Source
from pz_core.contract.engine import LandTask
from pz_core.engines.duckdb import arrow
from pz_core.engines.duckdb.landing import subject_of
from pz_core.engines.duckdb.session import Work
from pz_core.values import Column, quote_identifier

PROGRESS_BATCHES = 10
#: Rows of one INSERT: enough row groups to keep several threads busy.
STATEMENT_ROWS = 4 * arrow.MAX_BATCH_ROWS
#: The type of a column of nothing but NULL, which a table holds as INTEGER; inside a STRUCT it may be a name instead.
_NULL_TYPE = re.compile(r'"NULL"(?=[,)\[]|$)')
_INCOMING = "pz_incoming"


class OtherColumns(Exception):
    """The batches do not go into the table that an earlier attempt has begun."""


class StagingTable:
    """The table that batches go into.

    Args:
        source: asked for types that Arrow does not tell.
        task: what is landed.
        name: quoted name of the table.
        begun: columns of the table where an earlier attempt has made it; ``None`` if it is to be made.
    """

    def __init__(self, source: Source, task: LandTask, name: str, begun: tuple[Column, ...] | None = None) -> None:
        self.name = name
        self.schema: pa.Schema | None = None
        self._source = source
        self._task = task
        self._begun = begun
        self._lock = threading.Lock()

    def admit(self, work: Work, batch: pa.RecordBatch) -> None:
        """Make the table from the first batch, and compare every later one with it.

        Raises:
            ConnectorError: for a batch of another shape.
            OtherColumns: if the table is there, with other columns.
        """
        with self._lock:
            if self.schema is not None:
                arrow.refuse_other_shape(self.schema, batch.schema, subject_of(self._task))
                return
            self._make(work, batch)
            self.schema = batch.schema

    def refuse_nothing(self) -> None:
        """Refuse a read that gave no batch.

        Raises:
            ConnectorError: if no batch was admitted.
        """
        if self.schema is None:
            raise ConnectorError(
                f"{subject_of(self._task)}: the connector gave no batch, so that the columns are not known",
                hint="a read without rows must still yield one empty batch; report it to the connector's authors",
            )

    def _make(self, work: Work, batch: pa.RecordBatch) -> None:
        work.control.raise_if_cancelled()
        work.cursor.register(_INCOMING, pa.Table.from_batches([batch.slice(0, 0)]))
        columns = work.columns(f"(SELECT * FROM {_INCOMING})")
        enums = self._enums(batch.schema, columns) if any(map(arrow.holds_dictionary, batch.schema.types)) else {}
        # Never CREATE TABLE AS over an empty batch, and never INSERT one: DuckDB 1.5.5 then loses, without a word, the
        # rows of a later INSERT in the same transaction that fills a row group.
        types = {c.name: _NULL_TYPE.sub("INTEGER", enums.get(c.name, c.type)) for c in columns}
        if self._begun is None:
            body = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in types.items())
            work.run(f"CREATE OR REPLACE TABLE {self.name} ({body})")
        elif [(c.name, c.type) for c in self._begun] != list(types.items()):
            raise OtherColumns

    def _enums(self, schema: pa.Schema, columns: tuple[Column, ...]) -> dict[str, str]:
        try:
            declared = {c.name: c.type for c in self._source.schema(self._task.read)}
        except ConnectorError:
            return {}  # the text is right without it; only the narrower type is not known
        return arrow.enum_types(schema, columns, declared)


class Meter:
    """Counts what all readers of a node have landed, and tells how far it is."""

    def __init__(self, work: Work) -> None:
        self._control = work.control
        self._lock = threading.Lock()
        self.rows = 0
        self._bytes = 0
        self._batches = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        with self._lock:
            self.rows += batch.num_rows
            self._bytes += batch.nbytes
            self._batches += 1
            if self._batches % PROGRESS_BATCHES == 0:
                self._control.progress(self.rows, self._bytes, self._batches)


class Ingest:
    """Inserts batches on one cursor.

    Each INSERT gets a table of batches that are there, a few row groups or ``hold_bytes`` bytes. A stream would
    be simpler, but DuckDB hands streams to an Arrow scanner that reads far ahead of it, and then memory is not bounded.

    Args:
        work: whose cursor, and whose transaction.
        table: where to.
        hold_bytes: how much is held back for one statement.
        meter: told of every batch.
    """

    def __init__(self, work: Work, table: StagingTable, hold_bytes: int, meter: Meter) -> None:
        self._work = work
        self._table = table
        self._hold_bytes = hold_bytes
        self._meter = meter
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0
        self.rows = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Keep a batch until there is enough for a statement.

        Raises:
            ConnectorError: for a batch of another shape.
            duckdb.Error: if it cannot be inserted.
            Cancelled: if the task was told to stop.
        """
        self._work.control.raise_if_cancelled()
        self._table.admit(self._work, batch)
        self.rows += batch.num_rows
        if batch.num_rows:
            rows, size = self._held_rows + batch.num_rows, self._held_bytes + batch.nbytes
            if self._held and (rows > STATEMENT_ROWS or size > self._hold_bytes):
                self.flush()
            self._held.append(batch)
            self._held_rows += batch.num_rows
            self._held_bytes += batch.nbytes
            if self._held_rows >= STATEMENT_ROWS or self._held_bytes >= self._hold_bytes:
                self.flush()
        self._meter.add(batch)

    def flush(self) -> None:
        """Insert what is held."""
        if not self._held or self._table.schema is None:
            return
        names = self._table.schema.names
        same = [b if b.schema.names == names else b.rename_columns(names) for b in self._held]
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        for group in _of_one_schema(same):
            self._work.cursor.register(_INCOMING, pa.Table.from_batches(group))
            self._work.run(f"INSERT INTO {self._table.name} SELECT * FROM {_INCOMING}")
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
