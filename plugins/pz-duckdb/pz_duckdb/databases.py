"""Database files that this process has open, shared by path: DuckDB allows a file one instance."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import duckdb
from msgspec import Struct

from pz_core.contract.connector import ConnectorError
from pz_core.values.duckdb_text import clean_message, without_values
from pz_duckdb.tables import DatabaseFile

_LOCKED = re.compile(
    r"set lock on file|being used by another process|already (?:open|attached)|Unique file handle", re.I
)
_CONFLICT = re.compile(r"write-write conflict|Conflict on ", re.I)


class _Open(Struct):
    database: duckdb.DuckDBPyConnection
    read_only: bool
    users: int


class Databases:
    """Open database files, counted; the last user closes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Path, _Open] = {}

    def acquire(self, file: DatabaseFile, *, read_only: bool, subject: str) -> duckdb.DuckDBPyConnection:
        """A cursor of the file's one instance; give it back with :meth:`release`.

        Args:
            file: the database file.
            read_only: whether reading is all that is wanted; an instance that can write serves a reader too.
            subject: ``connection.entity``, for messages.

        Raises:
            ConnectorError: transient where somebody else holds the file; PZ0353 where there is none to read.
        """
        with self._lock:
            held = self._open.get(file.path)
            if held is None:
                held = _Open(_connect(file, read_only, subject), read_only, 0)
                self._open[file.path] = held
            elif held.read_only and not read_only:
                raise _busy(file, subject, "this process reads it")
            held.users += 1
            return held.database.cursor()

    def release(self, file: DatabaseFile, cursor: duckdb.DuckDBPyConnection) -> None:
        """Give a cursor back."""
        cursor.close()
        with self._lock:
            held = self._open.get(file.path)
            if held is None:
                return
            held.users -= 1
            if held.users == 0:
                del self._open[file.path]
                held.database.close()


def _connect(file: DatabaseFile, read_only: bool, subject: str) -> duckdb.DuckDBPyConnection:
    if read_only and not file.path.is_file():
        raise file.missing(subject)
    if not file.path.parent.is_dir():
        raise ConnectorError(
            f"{subject}: folder of database file {file.shown} does not exist",
            hint="create the folder, or correct path: of the connection",
        )
    try:
        made = duckdb.connect(
            str(file.path),
            read_only=read_only,
            config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"},
        )
        made.execute("SET GLOBAL TimeZone = 'UTC'")
        made.execute("SET GLOBAL arrow_lossless_conversion = true")
    except duckdb.Error as error:
        raise database_error(error, file, subject) from error
    return made


def database_error(error: Exception, file: DatabaseFile, subject: str) -> ConnectorError:
    """What DuckDB met on the file; a lock that somebody holds may pass."""
    text = str(error)
    if _LOCKED.search(text):
        return _busy(file, subject, "another process, or another connection of this run, has it open", error)
    message = without_values(clean_message(text)) or type(error).__name__
    return ConnectorError(
        f"{subject}: {message}",
        transient=bool(_CONFLICT.search(text)),
        hint=f"check the table and database file {file.shown}",
        cause=error,
    )


def _busy(file: DatabaseFile, subject: str, who: str, cause: Exception | None = None) -> ConnectorError:
    return ConnectorError(
        f"{subject}: database file {file.shown} is locked: {who}",
        transient=True,
        hint="close the other program that uses it; a DuckDB file has one writer, or any number of readers, at a time",
        cause=cause,
    )


#: Shared by all connections of the process.
DATABASES = Databases()
