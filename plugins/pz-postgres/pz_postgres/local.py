"""A DuckDB of the connector's own, for reads and writes in record batches: the same SQL as in the engine's."""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pz_core.contract.connector import ConnectorError, Setup
from pz_core.contract.extensions import loading, planned_loading
from pz_core.contract.files import private_database
from pz_core.contract.refusals import read_refusal
from pz_core.values.duckdb_text import clean_message
from pz_postgres.control import connection_error, hint_for, without_quoted_values
from pz_postgres.settings import EXTENSION, Settings

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

LOST = re.compile(
    r"server closed the connection|connection to server|terminating connection|could not (?:send|receive)|"
    r"connection (?:reset|refused|timed out|not open)|no connection to the server|SSL (?:SYSCALL|connection)|"
    r"broken pipe|"
    r"Unable to connect|lost synchronization|bad connection",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    r"deadlock detected|could not serialize|lock timeout|canceling statement due to|too many (?:clients|connections)|"
    r"remaining connection slots|duplicate key value",
    re.IGNORECASE,
)
_DATA = re.compile(r"value too long|out of range|invalid input|invalid byte|overflow|violates|duplicate key", re.I)
#: Words of the server -> the SQLSTATE that they stand for, where the extension hands on the words alone.
_STATES = (
    ("permission denied", "42501"),
    ("does not exist", "42P01"),
    ("lock timeout", "55P03"),
    ("statement timeout", "57014"),
)
_SERVER = re.compile(r"(?:ERROR|FATAL|PANIC):\s+(.*)")


class Local:
    """The one DuckDB of the process: making one for each would take longer than most looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._numbers = itertools.count(1)

    def unique(self, alias: str) -> str:
        """A name that nobody else in this process attaches a database under."""
        return f"{alias}_{next(self._numbers)}"

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor, for the caller to close."""
        import duckdb

        with self._lock:
            if self._database is None:
                self._database = private_database(load=planned_loading(EXTENSION))
                # To ask each connection whether it lives, before and after each use, costs more than to try again
                # once in a while. Without the extension there is no such setting, and an attach tells why.
                with contextlib.suppress(duckdb.Error):
                    self._database.execute("SET GLOBAL pg_pool_health_check_query = ''")
            return self._database.cursor()

    def loaded(self, subject: str) -> duckdb.DuckDBPyConnection:
        """A cursor that is sure to have the extension.

        Raises:
            ConnectorError: PZ0311 if it cannot be loaded.
        """
        return self._prepared((loading(EXTENSION),), subject)

    def attached(self, settings: Settings, alias: str, subject: str) -> duckdb.DuckDBPyConnection:
        """A cursor, after a database was attached.

        Args:
            settings: of the connection.
            alias: unquoted name of the database, for all cursors.
            subject: ``connection.entity``, for messages.

        Raises:
            ConnectorError: PZ0311, or what kept it from connecting.
        """
        return self._prepared(settings.setup(alias), subject, settings)

    def _prepared(
        self, steps: Iterable[Setup], subject: str, settings: Settings | None = None
    ) -> duckdb.DuckDBPyConnection:
        import duckdb

        cursor = self.cursor()
        try:
            for step in steps:
                # Two that make one secret at once would conflict; two that wait for servers need not wait in turn.
                with self._lock if step.kind == "secret" else contextlib.nullcontext():
                    try:
                        cursor.execute(step.sql)
                    except duckdb.Error as error:
                        raise _setup_error(error, step, subject, settings) from None
        except BaseException:
            cursor.close()
            raise
        return cursor


#: Shared by all connections of the process.
LOCAL = Local()


def _setup_error(error: Exception, step: Setup, subject: str, settings: Settings | None) -> ConnectorError:
    if settings is not None:
        # Before libpq's words DuckDB puts what it was given.
        told = str(error).partition(f'"{settings.conninfo}": ')[2]
        if told:
            # Where a name has several addresses, each has its line; psycopg begins with the last one, too.
            return connection_error("\n".join(reversed(told.splitlines())), settings)
    if step.kind == "extension":  # a statement without a place for a credential
        import duckdb

        return ConnectorError(
            f"{subject}: DuckDB's extension cannot be loaded: {clean_message(str(error))}",
            code="PZ0311",
            hint=f"pip install --force-reinstall duckdb-extension-postgres-scanner=={duckdb.__version__}",
        )
    lost = bool(LOST.search(str(error)))
    return ConnectorError(
        f"{subject}: setting up ({step.kind}) failed with {type(error).__name__}",
        code="PZ0501" if lost else "PZ0311",
        transient=lost,
        hint="check the connection with pz validate --connect",
    )


def bulk_error(error: Exception, subject: str) -> ConnectorError:
    """What DuckDB or the server behind it met while rows moved; no value of the data stands in it."""
    text = str(error)
    refused = read_refusal(text)
    if refused is not None:
        refused.message = f"{subject}: {refused.message}"
        return refused
    found = _SERVER.search(text)
    lost = bool(LOST.search(text))
    if found:
        told = without_quoted_values(found[1].strip(), "22000" if _DATA.search(found[1]) else "00000")
    else:
        told = "the connection to the server was lost" if lost else _own_words(text)
    return ConnectorError(
        f"{subject}: {told}",
        transient=lost or bool(_AGAIN.search(text)),
        hint=hint_for("08006" if lost else next((state for words, state in _STATES if words in text), "00000")),
        cause=error,
    )


def _own_words(text: str) -> str:
    message = clean_message(text)
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", message)[:300] or "DuckDB failed"


def stream(cursor: duckdb.DuckDBPyConnection, query: str, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a query in batches of at most ``rows``; one without rows where there are none.

    Raises:
        duckdb.Error: whatever DuckDB met, while it streams too; see :func:`faults`.
    """
    import duckdb
    import pyarrow as pa

    reader = cursor.execute(query).to_arrow_reader(rows)
    empty = True
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            break
        except OSError as error:  # Arrow's name for whatever DuckDB raises while it streams
            raise duckdb.Error(str(error)) from error
        empty = False
        yield batch
    if empty:
        yield pa.RecordBatch.from_pylist([], schema=reader.schema)


@contextlib.contextmanager
def faults(subject: str):  # type: ignore[no-untyped-def]
    """Turn DuckDB's errors into the connector's."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise bulk_error(error, subject) from error
