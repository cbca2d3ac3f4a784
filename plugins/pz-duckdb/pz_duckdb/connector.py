"""The class behind ``connector: duckdb``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pz_core.contract.capabilities import Capabilities
from pz_core.contract.connector import CheckReport, ConnectionConfig, ConnectorError, ReadSpec, WriteSpec
from pz_core.contract.load import SCHEMA_POLICIES
from pz_core.contract.options import Option, OptionSet, option_set
from pz_core.errors import PzError
from pz_duckdb.sink import TableSink
from pz_duckdb.source import TableSource
from pz_duckdb.tables import DatabaseFile, TableName

_MAGIC_AT, _MAGIC = 8, b"DUCK"


class DuckDB:
    """Tables of one database file."""

    name: ClassVar[str] = "duckdb"
    testkit: ClassVar[str] = "pz_duckdb.kit:DuckDBSuite"
    connection_options: ClassVar[OptionSet] = option_set(
        Option("path", "string", "the database file; relative to the project, or absolute", required=True),
    )
    read_options: ClassVar[OptionSet] = option_set()
    write_options: ClassVar[OptionSet] = option_set()
    capabilities: ClassVar[Capabilities] = Capabilities(
        reads=True,
        native_read=True,
        universal_read=True,
        native_write=True,
        universal_write=True,
        load_modes=frozenset({"program"}),
        schema_policies=frozenset(SCHEMA_POLICIES),
        column_pruning=True,
        predicate_pushdown=True,
        bounded_window=True,
        inclusive_bound=True,
        floor_pushdown=True,
        ledger=True,
        apply_deletes=True,
        two_part_names=True,
        transactional=True,
    )

    def __init__(self, connection: ConnectionConfig) -> None:
        self._connection = connection
        self._file = DatabaseFile.of(connection)

    def validate(self) -> Sequence[PzError]:
        """PZ0301 for a path inside ``.pz/``."""
        fault = self._file.fault()
        return (fault,) if fault else ()

    def validate_read(self, spec: ReadSpec) -> Sequence[PzError]:
        """PZ0353 for a name that is no table's."""
        return self._name_faults(spec.entity)

    def validate_write(self, spec: WriteSpec) -> Sequence[PzError]:
        """PZ0353 for a name that is no table's."""
        return self._name_faults(spec.entity)

    def _name_faults(self, entity: str) -> Sequence[PzError]:
        try:
            TableName.of(entity, f"{self._connection.name}.{entity}")
        except ConnectorError as error:
            return (PzError(error.code, error.message, hint=error.hint),)
        return ()

    def write_place(self, spec: WriteSpec) -> str:
        """The file and the table in it; DuckDB tells names apart without their case."""
        name = TableName.of(spec.entity, f"{self._connection.name}.{spec.entity}")
        return f"{self._file.path}:{name.schema.lower()}.{name.table.lower()}"

    def check(self) -> CheckReport:
        """Whether the file is a DuckDB database; one that does not exist is made by the first write."""
        path, shown = self._file.path, self._file.shown
        if path.is_file():
            return _header(path, shown)
        if path.exists():
            return CheckReport(False, f"{shown} is not a file", "point path: at a database file")
        if path.parent.is_dir():
            return CheckReport(True, f"{shown} is not there; a write will create it")
        return CheckReport(False, f"the folder of {shown} does not exist", "create the folder, or correct path:")

    def open_source(self) -> TableSource:
        """Open for reading; touches nothing."""
        return TableSource(self._connection.name, self._file)

    def open_sink(self) -> TableSink:
        """Open for writing; touches nothing."""
        return TableSink(self._connection.name, self._file)


def _header(path: Path, shown: str) -> CheckReport:
    try:
        with path.open("rb") as stream:
            head = stream.read(_MAGIC_AT + len(_MAGIC))
    except OSError as error:
        return CheckReport(False, f"{shown} cannot be read: {error.strerror}", "check the permissions of the file")
    if not head:
        return CheckReport(True, f"{shown} is empty; a write will make it a database")
    if head[_MAGIC_AT:] != _MAGIC:
        return CheckReport(False, f"{shown} is not a DuckDB database", "point path: at a database file")
    return CheckReport(True, f"{shown} is a DuckDB database")
