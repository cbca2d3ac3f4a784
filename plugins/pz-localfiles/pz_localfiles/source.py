"""Reading files: by DuckDB itself, or in record batches by a DuckDB of our own over the same SELECT."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pz_core.contract.connector import ConnectorError, NativeScan, Partition, ReadHints, ReadShape, ReadSpec
from pz_core.contract.files import (
    HEAD_BYTES,
    FileRead,
    ResolvedRead,
    SourceFile,
    format_faults,
    planned_query,
    read_format,
    reader_error,
    resolve,
)
from pz_core.values import Column
from pz_localfiles.places import Places

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class FileSource:
    """Files of one connection, open for one attempt."""

    def __init__(self, connection: str, places: Places) -> None:
        self._name = connection
        self._places = places
        self._database: duckdb.DuckDBPyConnection | None = None
        self._guarded: tuple[ReadSpec, NativeScan] | None = None

    def natural_shape(self, spec: ReadSpec) -> ReadShape:
        """Always all there is."""
        return "full"

    def schema(self, spec: ReadSpec) -> tuple[Column, ...]:
        """Columns and types, proven over all rows."""
        return tuple(Column(name, kind) for name, kind in self._resolve(spec)[0].columns)

    def native_scan(self, spec: ReadSpec) -> NativeScan:
        """For a plan: nothing is looked at, so what is landed is :meth:`resolve_scan`'s."""
        read = self._file_read(spec)
        location = self._places.source(spec.entity, spec.options, read.format)
        return NativeScan(planned_query(read, str(location)), _mechanism(read), schema_inferred=_inferred(read))

    def resolve_scan(self, spec: ReadSpec) -> NativeScan:
        """The scan to land: headers read, files listed, types of texts proposed and guarded where one pass can do.

        Raises:
            ConnectorError: if the files are not there or cannot be read as asked.
        """
        # Hints change nothing here, and an engine asks twice where there are some: without them and with them.
        bare = dataclasses.replace(spec, hints=ReadHints())
        if self._guarded is None or self._guarded[0] != bare:
            self._guarded = (bare, _native_scan(self._file_read(spec), self._resolve(spec, guarded=True)[0]))
        return self._guarded[1]

    def settle_scan(self, spec: ReadSpec) -> NativeScan:
        """The scan to land after a guarded one has failed: every type proven.

        Raises:
            ConnectorError: PZ0812 for a value that does not fit its contract, by column, file and row; what
                :meth:`resolve_scan` raises.
        """
        import duckdb

        made, files = self._resolve(spec)
        read = self._file_read(spec)
        if all(kind == "VARCHAR" for _, kind in made.columns):
            # No type had to be proven, so nothing was read through, and what stopped the guarded scan was not met yet.
            try:
                self._connect().execute(f"SELECT count(COLUMNS(*)) FROM ({made.query}) AS pz_rows").fetchall()
            except duckdb.Error as error:
                raise reader_error(error, read, files) from error
        return _native_scan(read, made)

    def partitions(self, spec: ReadSpec) -> Sequence[Partition]:
        """One: DuckDB reads the files in parallel by itself."""
        return (Partition(),)

    def read(self, spec: ReadSpec, partition: Partition, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of the same SELECT that DuckDB would land by itself.

        Raises:
            ConnectorError: as :meth:`resolve_scan`.
        """
        import duckdb

        resolved, files = self._resolve(spec)
        read = self._file_read(spec)
        try:
            reader = self._connect().execute(resolved.query).to_arrow_reader(batch_rows)
            empty = True
            for batch in reader:
                empty = False
                yield batch
        except duckdb.Error as error:
            raise reader_error(error, read, files) from error
        if empty:
            import pyarrow as pa

            yield pa.RecordBatch.from_pylist([], schema=reader.schema)

    def close(self) -> None:
        """Give the memory back."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _file_read(self, spec: ReadSpec) -> FileRead:
        path = spec.options.get("path")
        file_format = read_format(spec.options, str(path) if path is not None else None)
        subject = f"{self._name}.{spec.entity}"
        faults = format_faults(subject, file_format, spec.options, "read")
        if faults:
            raise ConnectorError(faults[0].message, code=faults[0].code, hint=faults[0].hint)
        return FileRead(subject, file_format, spec.options, spec.columns, spec.bounds)  # type: ignore[arg-type]

    def _resolve(self, spec: ReadSpec, *, guarded: bool = False) -> tuple[ResolvedRead, list[SourceFile]]:
        read = self._file_read(spec)
        location = self._places.source(spec.entity, spec.options, read.format)
        path = spec.options.get("path")
        escape = self._places.escape(location, str(path) if path is not None else None, read.subject)
        if escape is not None:
            raise ConnectorError(escape.message, code=escape.code, hint=escape.hint)
        paths = self._places.found(location, read.format, read.subject)
        files = [self._look(read, path) for path in paths]
        return resolve(self._connect(), read, files, guarded=guarded), files

    def _look(self, read: FileRead, path: Path) -> SourceFile:
        shown = self._places.shown(path)
        if read.format == "parquet":
            return SourceFile(str(path), shown)
        try:
            head = _head(path)
        except OSError as error:
            raise ConnectorError(
                f"{read.subject}: {shown} cannot be read: {error.strerror or type(error).__name__}",
                hint="check the permissions of the file, and that its ending says how it is compressed",
                cause=error,
            ) from error
        return SourceFile(str(path), shown, head[:HEAD_BYTES], len(head) <= HEAD_BYTES)

    def _connect(self) -> duckdb.DuckDBPyConnection:
        if self._database is None:
            from pz_localfiles.database import private_database

            self._database = private_database()
        return self._database


def _head(path: Path) -> bytes:
    """The first bytes of a file, decompressed as its ending says; one more than wanted tells that there are more."""
    if path.suffix not in (".gz", ".zst"):
        with path.open("rb") as stream:
            return stream.read(HEAD_BYTES + 1)
    import pyarrow as pa

    with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else "zstd") as packed:
        return bytes(packed.read(HEAD_BYTES + 1))


def _native_scan(read: FileRead, made: ResolvedRead) -> NativeScan:
    return NativeScan(made.query, _mechanism(read), schema_inferred=_inferred(read), guarded=made.guarded)


def _mechanism(read: FileRead) -> str:
    return {"csv": "read_csv", "tsv": "read_csv", "json": "read_json", "parquet": "read_parquet"}[read.format]


def _inferred(read: FileRead) -> bool:
    return read.columns is None and read.format != "parquet"
