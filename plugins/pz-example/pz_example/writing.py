"""Writing: a new file beside the old one, which takes its place when it is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pz_core.contract import ConnectorError, NativeTarget, Receipt, WriteSpec
from pz_core.contract.connector import AbortSemantics
from pz_core.values import Column, quote_identifier
from pz_example.folder import Folder

if TYPE_CHECKING:
    import pyarrow as pa


class StreamSink:
    """Files of one folder, open for one attempt."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def native_write(self, spec: WriteSpec) -> NativeTarget | None:
        """DuckDB cannot write these files by itself."""
        return None

    def begin(self, spec: WriteSpec, columns: tuple[Column, ...]) -> StreamSession:
        """Begin a file beside the old one."""
        return StreamSession(self._folder, spec, columns)

    def abort_semantics(self) -> AbortSemantics:
        """An abort leaves no trace."""
        return "discards_all"

    def close(self) -> None:
        """Nothing is held."""


class StreamSession:
    """One new file: nobody sees it before the commit."""

    def __init__(self, folder: Folder, spec: WriteSpec, columns: tuple[Column, ...]) -> None:
        import pyarrow as pa

        self._folder = folder
        self._spec = spec
        self._columns = columns
        self._final = folder.file(spec.entity)
        self._temporary = self._final.with_suffix(f".{spec.run_id}.tmp")
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._rows = self._batches = 0
        try:
            self._final.parent.mkdir(parents=True, exist_ok=True)
            self._file: pa.OSFile | None = pa.OSFile(str(self._temporary), "wb")
        except OSError as error:
            raise folder.fault(spec.entity, error) from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Write one batch; its memory is not needed afterwards."""
        import pyarrow as pa

        try:
            self._opened(batch.schema).write_batch(batch)
        except (OSError, pa.ArrowException) as error:
            raise self._folder.fault(self._spec.entity, error) from error
        self._rows += batch.num_rows
        self._batches += 1

    def commit(self) -> Receipt:
        """Finish the file, and let it take the old one's place in one step."""
        try:
            if self._writer is None:  # no rows: the columns are all there is to say
                self._opened(_schema(self._columns))
            self._end()
            self._temporary.replace(self._final)
        except OSError as error:
            raise self._folder.fault(self._spec.entity, error) from error
        return Receipt(self._rows, self._batches)

    def abort(self) -> None:
        """Take the new file away; the old one was never touched."""
        self._end()
        self._temporary.unlink(missing_ok=True)

    def _opened(self, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
        import pyarrow as pa

        if self._file is None:
            raise ConnectorError(
                f"{self._folder.connection}.{self._spec.entity}: the write has ended",
                hint="a session ends with commit or abort",
            )
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, schema)
        return self._writer

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.close()
        self._writer = self._file = None


def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of columns that DuckDB describes."""
    import duckdb

    fields = ", ".join(f"CAST(NULL AS {column.type}) AS {quote_identifier(column.name)}" for column in columns)
    with duckdb.connect() as database:
        database.execute("SET arrow_lossless_conversion = true")
        return database.execute(f"SELECT {fields} LIMIT 0").to_arrow_table().schema
