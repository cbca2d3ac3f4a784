"""Reading: the file's batches, cut to size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pz_core.contract import ConnectorError, NativeScan, Partition, ReadSpec
from pz_core.contract.connector import ReadShape
from pz_core.values import Column, duckdb_type
from pz_example.folder import Folder

if TYPE_CHECKING:
    import pyarrow as pa


class StreamSource:
    """Files of one folder, open for one attempt."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def natural_shape(self, spec: ReadSpec) -> ReadShape:
        """Always all there is."""
        return "full"

    def schema(self, spec: ReadSpec) -> tuple[Column, ...]:
        """Columns of the file, as DuckDB names their types."""
        import duckdb

        [empty] = [batch.slice(0, 0) for batch in self._batches(spec, first_only=True)]
        with duckdb.connect() as database:
            database.register("given", empty)
            found = database.execute("DESCRIBE given").fetchall()
        columns = tuple(Column(row[0], row[1]) for row in found)
        self._refuse_other_types(spec, columns)
        return columns

    def native_scan(self, spec: ReadSpec) -> NativeScan | None:
        """DuckDB cannot read these files by itself."""
        return None

    def partitions(self, spec: ReadSpec) -> Sequence[Partition]:
        """One: a file is read from front to back."""
        return (Partition(),)

    def read(self, spec: ReadSpec, partition: Partition, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The batches of the file. Hints and bounds are not looked at: the engine filters what it gets."""
        self.schema(spec)
        for batch in self._batches(spec):
            for start in range(0, max(1, batch.num_rows), batch_rows):
                yield batch.slice(start, batch_rows)

    def close(self) -> None:
        """A read closes its file itself."""

    def _batches(self, spec: ReadSpec, *, first_only: bool = False) -> Iterator[pa.RecordBatch]:
        """Batches of the file, at least one, with the columns of the contract if there is one."""
        import pyarrow as pa

        try:
            with pa.OSFile(str(self._folder.file(spec.entity))) as file, pa.ipc.open_stream(file) as stream:
                names = stream.schema.names if spec.columns is None else self._named(spec, stream.schema.names)
                yield pa.RecordBatch.from_pylist([], schema=stream.schema).select(names)
                if not first_only:
                    yield from (batch.select(names) for batch in stream if batch.num_rows)
        except FileNotFoundError as error:
            raise ConnectorError(
                f"{self._folder.connection}.{spec.entity}: there is no such file in the folder",
                code="PZ0353",
                hint="run the pipeline that writes it first, or correct folder: of the connection",
                cause=error,
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise self._folder.fault(spec.entity, error) from error

    def _named(self, spec: ReadSpec, there: Sequence[str]) -> list[str]:
        missing = [name for name in spec.columns or () if name not in there]
        if missing:
            raise ConnectorError(
                f"{self._folder.connection}.{spec.entity}: the file lacks columns of columns: {', '.join(missing)}",
                code="PZ0353",
                hint=f"the file has {', '.join(there)}",
            )
        return list(spec.columns or ())

    def _refuse_other_types(self, spec: ReadSpec, columns: Sequence[Column]) -> None:
        """The file knows its types: a contract that says another one is wrong, and no value is ever cast."""
        for column in columns:
            word = (spec.columns or {}).get(column.name)
            if word is not None and duckdb_type(word) != column.type:
                raise ConnectorError(
                    f"{self._folder.connection}.{spec.entity}: column '{column.name}' is {column.type}, not {word}",
                    code="PZ0353",
                    hint="correct its type under columns:, and convert it in the pipeline",
                )
