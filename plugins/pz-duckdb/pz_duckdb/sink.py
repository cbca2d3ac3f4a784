"""Writing a table: attached to the engine's DuckDB, or in record batches through an instance of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pz_core.contract.connector import AbortSemantics, ConnectorError, NativeTarget, Receipt, Setup, WriteSpec
from pz_core.contract.ledger import LEDGER_TABLE
from pz_core.contract.refusals import read_refusal
from pz_core.values import Column, quote_identifier, quote_literal, quote_path
from pz_core.values.duckdb_inserts import ORDERED, UNORDERED, holds_insert
from pz_duckdb.tables import DatabaseFile, TableName
from pz_duckdb.usage import mark_written

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_STAGED = "pz_staged"


class TableSink:
    """Tables of one file, open for one attempt."""

    def __init__(self, connection: str, file: DatabaseFile) -> None:
        self._name = connection
        self._file = file
        mark_written(file.path)

    def native_write(self, spec: WriteSpec) -> NativeTarget:
        """The table in the attached file, on which a strategy's program runs."""
        name = TableName.of(spec.entity, f"{self._name}.{spec.entity}")
        setup = Setup(self._file.attach(read_only=False), "attach")
        return NativeTarget(self._file.alias, name.schema, name.table, "attach", (setup,), ledger=LEDGER_TABLE)

    def begin(self, spec: WriteSpec, columns: tuple[Column, ...]) -> TableSession:
        """Begin a write in one transaction."""
        subject = f"{self._name}.{spec.entity}"
        return TableSession(self._file, TableName.of(spec.entity, subject), columns, subject)

    def abort_semantics(self) -> AbortSemantics:
        """An abort leaves no trace."""
        return "discards_all"

    def close(self) -> None:
        """Nothing is held."""


class TableSession:
    """One transaction: rows are staged in a temporary table, then a strategy's program runs, then it commits."""

    dialect = "duckdb"
    order = "rowid"

    def __init__(self, file: DatabaseFile, name: TableName, columns: tuple[Column, ...], subject: str) -> None:
        from pz_duckdb.databases import DATABASES

        self._file = file
        self._subject = subject
        self._rows = 0
        self._batches = 0
        self._ordered = True
        self._cursor: duckdb.DuckDBPyConnection | None = DATABASES.acquire(file, read_only=False, subject=subject)
        try:
            catalog = str(self._run("SELECT current_database()").fetchall()[0][0])
            self._place = (catalog, name.schema, name.table)
            self.target = quote_path(*self._place)
            self.ledger = quote_path(catalog, name.schema, LEDGER_TABLE)
            self.staged = quote_path("temp", "main", _STAGED)
            self._run("BEGIN TRANSACTION")
            self._run(f"CREATE SCHEMA IF NOT EXISTS {quote_path(catalog, name.schema)}")
            fields = ", ".join(f"{quote_identifier(c.name)} {c.type}" for c in columns)
            self._run(f"CREATE TEMPORARY TABLE {quote_identifier(_STAGED)} ({fields})")
        except BaseException:
            self._end()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Stage one batch; it is copied before the call returns."""
        import pyarrow as pa

        cursor = self._held()
        self._batches += 1
        if batch.num_rows == 0:
            return  # an INSERT of nothing is what DuckDB loses later rows by
        if not self._ordered:
            self._run(ORDERED)
            self._ordered = True
        cursor.register("pz_batch", pa.Table.from_batches([batch]))
        try:
            self._run(f"INSERT INTO {self.staged} SELECT * FROM pz_batch")
        finally:
            cursor.unregister("pz_batch")
        self._rows += batch.num_rows

    def columns(self) -> tuple[Column, ...] | None:
        """The target's columns, or ``None`` if it does not exist."""
        catalog, schema, table = (quote_literal(part) for part in self._place)
        rows = self._run(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns() "
            f"WHERE database_name = {catalog} AND lower(schema_name) = lower({schema}) "
            f"AND lower(table_name) = lower({table}) ORDER BY column_index"
        ).fetchall()
        return tuple(Column(row[0], row[1], bool(row[2])) for row in rows) or None

    def execute(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Run one statement in the transaction; it has run when the call returns."""
        if self._ordered and self._inserts(sql):
            self._run(UNORDERED)
            self._ordered = False
        return iter(self._run(sql).to_arrow_table().to_batches())

    def commit(self) -> Receipt:
        """Commit; nothing of it was visible before."""
        try:
            self._run(f"DROP TABLE {self.staged}")
            self._run("COMMIT")
        finally:
            self._end()
        return Receipt(self._rows, self._batches)

    def abort(self) -> None:
        """Roll back."""
        import duckdb

        if self._cursor is not None:
            with contextlib.suppress(duckdb.Error):
                self._cursor.execute("ROLLBACK")
        self._end()

    def _inserts(self, sql: str) -> bool:
        import duckdb

        try:
            return holds_insert(self._held(), sql)
        except duckdb.Error:
            return False  # it will not run either, and says why itself

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        import duckdb

        try:
            return self._held().execute(sql)
        except duckdb.Error as error:
            from pz_duckdb.databases import database_error

            refused = read_refusal(str(error))
            if refused is None:
                raise database_error(error, self._file, self._subject) from error
            refused.message = f"{self._subject}: {refused.message}"
            raise refused from error

    def _held(self) -> duckdb.DuckDBPyConnection:
        if self._cursor is None:
            raise ConnectorError(f"{self._subject}: the write has ended", hint="a session ends with commit or abort")
        return self._cursor

    def _end(self) -> None:
        if self._cursor is not None:
            from pz_duckdb.databases import DATABASES

            DATABASES.release(self._file, self._cursor)
            self._cursor = None
