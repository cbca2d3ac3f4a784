"""Writing a table: rows go by binary COPY beside the target or straight into it, and one transaction commits all.

DuckDB's extension could write by itself. But where it loses the connection while it copies, it takes the whole DuckDB
with it, and then the process. So DuckDB only encodes here, and psycopg sends.
"""

from __future__ import annotations

import contextlib

from pz_core.contract.connector import AbortSemantics, NativeStream, WriteSpec
from pz_core.contract.extensions import planned_loading
from pz_core.values import Column
from pz_postgres.catalog import PgTable, describe_table
from pz_postgres.control import connected
from pz_postgres.names import TableName
from pz_postgres.pipe import PIPES
from pz_postgres.session import TableSession
from pz_postgres.settings import EXTENSION, Settings
from pz_postgres.staging import described


class TableSink:
    """Tables of one database, open for one attempt."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sessions: list[TableSession] = []

    def native_write(self, spec: WriteSpec) -> NativeStream | None:
        """DuckDB encodes, and does no more: see the module."""
        if not PIPES:
            return None
        return NativeStream("COPY in PostgreSQL's binary form, which the connector sends", planned_loading(EXTENSION))

    def begin(self, spec: WriteSpec, columns: tuple[Column, ...]) -> TableSession:
        """Begin a write in one transaction.

        Raises:
            ConnectorError: PZ0812 for a column that the target cannot hold, or why the place cannot be reached.
        """
        subject = f"{self._settings.name}.{spec.entity}"
        table, schema_is_there = self._look(TableName.of(spec.entity, subject), subject)
        target = None if table is None else tuple(described(c) for c in table.columns if not c.generated)
        made = TableSession(self._settings, spec, columns, table, target, make_schema=not schema_is_there)
        self._sessions.append(made)
        return made

    def abort_semantics(self) -> AbortSemantics:
        """An abort leaves no trace."""
        return "discards_all"

    def interrupt(self) -> None:
        """Stop what the sessions wait for."""
        for session in tuple(self._sessions):
            with contextlib.suppress(Exception):
                session.interrupt()

    def close(self) -> None:
        """Nothing is held between sessions."""

    def _look(self, name: TableName, subject: str) -> tuple[PgTable | None, bool]:
        with connected(self._settings) as held:
            table = describe_table(held, name, subject)
            if table is not None:
                return table, True
            found = held.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s", (name.schema,)).fetchone()
            return None, found is not None
