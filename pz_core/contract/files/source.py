"""Reading files, for every connector of files: the SELECT that lands them, by the engine or in record batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

import msgspec.structs
from msgspec import Struct

from pz_core.contract.connector import ConnectorError, NativeScan, Partition, ReadHints, ReadShape, ReadSpec, Setup
from pz_core.contract.files.formats import Format, format_faults, read_format
from pz_core.contract.files.model import FileRead, ResolvedRead, SourceFile, reader_error
from pz_core.contract.files.reading import planned_query, resolve
from pz_core.contract.files.spool import private_database
from pz_core.values import Column, duckdb_type, quote_identifier

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_MECHANISMS = {"csv": "read_csv", "tsv": "read_csv", "json": "read_json", "parquet": "read_parquet"}


class FoundFiles(Struct, frozen=True):
    """The files of a read.

    Args:
        files: text formats with their ``head``. Empty only where no file at all holds rows of the read's window.
        sample: a file outside of the window, which tells the columns where ``files`` is empty.
    """

    files: tuple[SourceFile, ...]
    sample: SourceFile | None = None


class FilesSource(ABC):
    """Files of one connection, open for one attempt. A connector says where they are; all else stands here.

    Args:
        connection: its name, for messages.
    """

    #: The format of a read that neither ``format`` nor the path's ending tells.
    default_format: ClassVar[Format] = "csv"

    def __init__(self, connection: str) -> None:
        self._name = connection
        self._database: duckdb.DuckDBPyConnection | None = None
        self._guarded: tuple[ReadSpec, NativeScan | None] | None = None

    @abstractmethod
    def planned_place(self, spec: ReadSpec, read: FileRead) -> str:
        """Path or glob of a read as DuckDB takes it, for a plan; nothing is looked at."""

    @abstractmethod
    def find(self, spec: ReadSpec, read: FileRead, *, local: bool) -> FoundFiles:
        """The files of a read.

        Args:
            spec: the read.
            read: the same, checked.
            local: whether this connector's own database reads the rows, not the engine's: they must be in its reach.

        Raises:
            ConnectorError: if there are none, or the place cannot be reached.
        """

    def natively(self, found: FoundFiles) -> bool:
        """Whether the engine's database can read these files, each by its exact name."""
        return True

    def setup(self) -> tuple[Setup, ...]:
        """What a database needs before it can open the files."""
        return ()

    def natural_shape(self, spec: ReadSpec) -> ReadShape:
        """Always all there is."""
        return "full"

    def schema(self, spec: ReadSpec) -> tuple[Column, ...]:
        """Columns and types, proven over all rows."""
        return tuple(Column(name, kind) for name, kind in self._resolve(spec, local=True)[0].columns)

    def native_scan(self, spec: ReadSpec) -> NativeScan | None:
        """For a plan: nothing is looked at, so what is landed is :meth:`resolve_scan`'s."""
        read = self.checked(spec)
        return NativeScan(
            planned_query(read, self.planned_place(spec, read)),
            _MECHANISMS[read.format],
            schema_inferred=_inferred(read),
        )

    def resolve_scan(self, spec: ReadSpec) -> NativeScan | None:
        """The scan to land: headers read, files listed, types of texts proposed and guarded where one pass can do.

        Returns:
            ``None`` where the engine's database cannot open the files; then batches are read.

        Raises:
            ConnectorError: if the files are not there or cannot be read as asked.
        """
        # Hints change nothing here, and an engine asks twice where there are some: without them and with them.
        bare = msgspec.structs.replace(spec, hints=ReadHints())
        if self._guarded is None or self._guarded[0] != bare:
            self._guarded = (bare, self._scan(spec))
        return self._guarded[1]

    def _scan(self, spec: ReadSpec) -> NativeScan | None:
        read = self.checked(spec)
        found = self.find(spec, read, local=False)
        if not self.natively(found):
            return None
        return self._native_scan(read, self._resolved(read, found, guarded=True))

    def settle_scan(self, spec: ReadSpec) -> NativeScan:
        """The scan to land after a guarded one has failed: every type proven.

        Raises:
            ConnectorError: PZ0812 for a value that does not fit its contract, by column, file and row; what
                :meth:`resolve_scan` raises.
        """
        import duckdb

        read = self.checked(spec)
        found = self.find(spec, read, local=False)
        made = self._resolved(read, found)
        if all(kind == "VARCHAR" for _, kind in made.columns):
            # No type had to be proven, so nothing was read through, and what stopped the guarded scan was not met yet.
            try:
                self.database().execute(f"SELECT count(COLUMNS(*)) FROM ({made.query}) AS pz_rows").fetchall()
            except duckdb.Error as error:
                raise reader_error(error, read, found.files) from error
        return self._native_scan(read, made)

    def partitions(self, spec: ReadSpec) -> Sequence[Partition]:
        """One: DuckDB reads the files in parallel by itself."""
        return (Partition(),)

    def read(self, spec: ReadSpec, partition: Partition, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of the same SELECT that DuckDB would land by itself.

        Raises:
            ConnectorError: as :meth:`resolve_scan`.
        """
        import duckdb

        resolved, found = self._resolve(spec, local=True)
        read = self.checked(spec)
        try:
            reader = self.database().execute(resolved.query).to_arrow_reader(batch_rows)
            empty = True
            for batch in reader:
                empty = False
                yield batch
        except duckdb.Error as error:
            raise reader_error(error, read, found.files) from error
        if empty:
            import pyarrow as pa

            yield pa.RecordBatch.from_pylist([], schema=reader.schema)

    def close(self) -> None:
        """Give the memory back."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def checked(self, spec: ReadSpec) -> FileRead:
        """A read whose format and options are known to be right.

        Raises:
            ConnectorError: PZ0361, PZ0362.
        """
        path = spec.options.get("path")
        file_format = read_format(spec.options, str(path) if path is not None else None, self.default_format)
        subject = f"{self._name}.{spec.entity}"
        faults = format_faults(subject, file_format, spec.options, "read")
        if faults:
            raise ConnectorError(faults[0].message, code=faults[0].code, hint=faults[0].hint)
        return FileRead(subject, cast(Format, file_format), spec.options, spec.columns, spec.bounds)

    def database(self) -> duckdb.DuckDBPyConnection:
        """This connector's own database, made when it is first needed."""
        if self._database is None:
            self._database = private_database()
        return self._database

    def _resolve(self, spec: ReadSpec, *, local: bool) -> tuple[ResolvedRead, FoundFiles]:
        read = self.checked(spec)
        found = self.find(spec, read, local=local)
        return self._resolved(read, found), found

    def _resolved(self, read: FileRead, found: FoundFiles, *, guarded: bool = False) -> ResolvedRead:
        if found.files:
            return resolve(self.database(), read, found.files, guarded=guarded)
        if read.columns is not None:
            typed = [(name, duckdb_type(word)) for name, word in read.columns.items()]
            fields = ", ".join(f"CAST(NULL AS {kind}) AS {quote_identifier(name)}" for name, kind in typed)
            return ResolvedRead(f"SELECT {fields} WHERE false", tuple(typed))
        if found.sample is None:
            raise ConnectorError(
                f"{read.subject}: no file holds rows of this window, and none outside of it tells the columns",
                hint="declare them under columns:, or correct path:",
            )
        made = resolve(self.database(), msgspec.structs.replace(read, bounds=None), [found.sample])
        return ResolvedRead(f"SELECT * FROM ({made.query}) AS pz_rows WHERE false", made.columns)

    def _native_scan(self, read: FileRead, made: ResolvedRead) -> NativeScan:
        return NativeScan(
            made.query,
            _MECHANISMS[read.format],
            setup=self.setup(),
            schema_inferred=_inferred(read),
            guarded=made.guarded,
        )


def _inferred(read: FileRead) -> bool:
    return read.columns is None and read.format != "parquet"
