"""Reading a table: attached to the engine's DuckDB, or in record batches through an instance of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pz_core.contract.connector import ConnectorError, NativeScan, Partition, ReadShape, ReadSpec, Setup
from pz_core.contract.refusals import read_refusal
from pz_core.values import Column, quote_path
from pz_duckdb.tables import DatabaseFile, TableName, select
from pz_duckdb.usage import is_written

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class TableSource:
    """Tables of one file, open for one attempt."""

    def __init__(self, connection: str, file: DatabaseFile) -> None:
        self._name = connection
        self._file = file
        self._cursor: duckdb.DuckDBPyConnection | None = None

    def natural_shape(self, spec: ReadSpec) -> ReadShape:
        """Always all there is."""
        return "full"

    def schema(self, spec: ReadSpec) -> tuple[Column, ...]:
        """Columns that the read yields."""
        subject = self._subject(spec)
        rows = self._run(f"DESCRIBE {self._select(spec)}", subject).fetchall()
        return tuple(Column(row[0], row[1]) for row in rows)

    def native_scan(self, spec: ReadSpec) -> NativeScan:
        """A SELECT over the attached file."""
        name = TableName.of(spec.entity, self._subject(spec))
        relation = quote_path(self._file.alias, name.schema, name.table)
        setup = Setup(self._file.attach(read_only=not is_written(self._file.path)), "attach")
        return NativeScan(select(spec, relation), "attach", (setup,))

    def resolve_scan(self, spec: ReadSpec) -> NativeScan:
        """The same, once the file is known to be there.

        Raises:
            ConnectorError: PZ0353 if it is not.
        """
        if not self._file.path.is_file():
            raise self._file.missing(self._subject(spec))
        return self.native_scan(spec)

    def partitions(self, spec: ReadSpec) -> Sequence[Partition]:
        """One: DuckDB reads a table in parallel by itself."""
        return (Partition(),)

    def read(self, spec: ReadSpec, partition: Partition, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of the same SELECT.

        Raises:
            ConnectorError: what DuckDB met; transient where the file is locked.
        """
        import duckdb

        subject = self._subject(spec)
        try:
            reader = self._run(self._select(self._exact(spec, subject)), subject).to_arrow_reader(batch_rows)
            empty = True
            for batch in reader:
                empty = False
                yield batch
        except duckdb.Error as error:
            raise self._fault(error, subject) from error
        if empty:
            import pyarrow as pa

            yield pa.RecordBatch.from_pylist([], schema=reader.schema)

    def close(self) -> None:
        """Give the file back."""
        if self._cursor is not None:
            from pz_duckdb.databases import DATABASES

            DATABASES.release(self._file, self._cursor)
            self._cursor = None

    def _subject(self, spec: ReadSpec) -> str:
        return f"{self._name}.{spec.entity}"

    def _select(self, spec: ReadSpec) -> str:
        name = TableName.of(spec.entity, self._subject(spec))
        return select(spec, quote_path(name.schema, name.table))

    def _exact(self, spec: ReadSpec, subject: str) -> ReadSpec:
        """Without the filter where a column may have a collation: batches lose it, and then other texts are equal."""
        if spec.hints.predicate is None:
            return spec
        collated = self._run(
            "SELECT count(*) FROM (SELECT sql, internal FROM duckdb_tables() "
            "UNION ALL SELECT sql, internal FROM duckdb_views()) AS made "
            "WHERE NOT internal AND contains(lower(sql), 'collate')",
            subject,
        ).fetchall()[0][0]
        return replace(spec, hints=replace(spec.hints, predicate=None)) if collated else spec

    def _run(self, sql: str, subject: str) -> duckdb.DuckDBPyConnection:
        import duckdb

        from pz_duckdb.databases import DATABASES

        if self._cursor is None:
            read_only = not is_written(self._file.path)
            if not self._file.path.is_file():
                raise self._file.missing(subject)
            self._cursor = DATABASES.acquire(self._file, read_only=read_only, subject=subject)
        try:
            return self._cursor.execute(sql)
        except duckdb.Error as error:
            raise self._fault(error, subject) from error

    def _fault(self, error: Exception, subject: str) -> ConnectorError:
        from pz_duckdb.databases import database_error

        refused = read_refusal(str(error))
        if refused is None:
            return database_error(error, self._file, subject)
        refused.message = f"{subject}: {refused.message}"
        return refused
