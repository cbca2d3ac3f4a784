"""Rows that come in batches and leave as one file: they gather in a DuckDB of their own, which spills to disk."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pz_core.contract.connector import ConnectorError, Setup
from pz_core.contract.extensions import UNSIGNED, load_checked, load_known
from pz_core.contract.files.formats import Format
from pz_core.contract.files.writing import copy_projection
from pz_core.contract.refusals import read_refusal
from pz_core.values import Column, quote_identifier, quote_literal
from pz_core.values.duckdb_text import first_line, without_values

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def private_database(temp_directory: str | None = None, *, load: Sequence[Setup] = ()) -> duckdb.DuckDBPyConnection:
    """An in-memory database with time zone UTC, without extensions from outside, that hands types on unchanged.

    So are all cursors of it.

    Args:
        temp_directory: where it spills to; a default of DuckDB's own without it.
        load: extensions; see :func:`~pz_core.contract.extensions.load_known`.
    """
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "arrow_lossless_conversion": "true",
    }
    if temp_directory is not None:
        config["temp_directory"] = temp_directory
    if load:
        config |= UNSIGNED
    made = duckdb.connect(":memory:", config=config)
    if load:
        known = load_known(made, load)
        for statement in load:
            if statement not in known:
                with contextlib.suppress(duckdb.Error):  # told by whoever needs it
                    load_checked(made.execute, statement)
    made.execute("SET GLOBAL TimeZone = 'UTC'")
    return made


class RowSpool:
    """The rows of one universal write.

    Args:
        subject: ``connection.entity``, for messages.
        columns: of the rows.
        spill: a folder of its own that DuckDB may spill to; removed by :meth:`close`.
        hint: what to do when DuckDB cannot write.
    """

    def __init__(self, subject: str, columns: Sequence[Column], spill: Path, hint: str) -> None:
        self._subject = subject
        self._columns = tuple(columns)
        self._spill = spill
        self._hint = hint
        self._database: duckdb.DuckDBPyConnection | None = None
        self._closed = False
        self.rows = 0
        self.batches = 0
        self._open()

    def write(self, batch: pa.RecordBatch) -> None:
        """Take one batch; it is copied before the call returns.

        Raises:
            ConnectorError: if DuckDB cannot keep it.
        """
        import duckdb
        import pyarrow as pa

        database = self._open()
        try:
            database.register("pz_batch", pa.Table.from_batches([batch]))
            database.execute("INSERT INTO pz_rows SELECT * FROM pz_batch")
            database.unregister("pz_batch")
        except duckdb.Error as error:
            raise self._fault(error) from error
        self.rows += batch.num_rows
        self.batches += 1

    def copy_to(self, path: Path, file_format: Format, options: str) -> None:
        """Write all rows to a file of this machine.

        Args:
            path: of the file.
            file_format: of the file.
            options: what :func:`~pz_core.contract.files.writing.copy_options` gives.

        Raises:
            ConnectorError: PZ0812 for a value that the format cannot hold; what DuckDB cannot write.
        """
        import duckdb

        projection = copy_projection(file_format, self._columns)
        try:
            self._open().execute(f"COPY (SELECT {projection} FROM pz_rows) TO {quote_literal(str(path))} ({options})")
        except duckdb.Error as error:
            raise self._fault(error) from error

    def close(self) -> None:
        """Give memory and disk back; may be called twice. Nothing is taken afterwards."""
        self._closed = True
        if self._database is not None:
            self._database.close()
            self._database = None
        shutil.rmtree(self._spill, ignore_errors=True)

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._closed:
            raise ConnectorError(f"{self._subject}: the write has ended", hint="a session ends with commit or abort")
        if self._database is None:
            self._database = private_database(str(self._spill))
            fields = ", ".join(f"{quote_identifier(c.name)} {c.type}" for c in self._columns)
            self._database.execute(f"CREATE TABLE pz_rows ({fields})")
        return self._database

    def _fault(self, error: Exception) -> ConnectorError:
        refused = read_refusal(str(error))
        if refused is not None:
            refused.message = f"{self._subject}: {refused.message}"
            return refused
        told = first_line(without_values(str(error))) or type(error).__name__
        return ConnectorError(f"{self._subject}: {told}", hint=self._hint, cause=error)
