"""A look at a table by DuckDB's extension, which a read needs anyhow; psycopg takes longer to import than to read."""

from __future__ import annotations

import contextlib
import time

from msgspec.structs import replace

from pz_core.values import quote_identifier, quote_literal
from pz_postgres.catalog import PgTable, describe_table, table_of, table_query
from pz_postgres.control import connected
from pz_postgres.local import LOCAL, LOST, bulk_error
from pz_postgres.names import TableName
from pz_postgres.settings import Settings


def look_at(settings: Settings, name: TableName, subject: str) -> PgTable | None:
    """A table that is to be read; ``None`` if there is none of that name.

    psycopg is asked where the extension cannot tell: it knows an error of the server by its SQLSTATE.

    Args:
        settings: of the connection.
        name: of the table.
        subject: ``connection.entity``, for messages.

    Raises:
        ConnectorError: why it cannot be looked at; PZ0311 if the extension is not installed.
    """
    import duckdb

    query = table_query(name, shared=True)
    limit = settings.command_timeout
    timed = replace(settings, session=(("statement_timeout", f"{limit}s"),)) if limit else settings
    alias = LOCAL.unique(settings.alias("look"))
    began = time.monotonic()
    cursor = LOCAL.attached(timed, alias, subject)
    try:
        rows = cursor.execute(f"FROM postgres_query({quote_literal(alias)}, {quote_literal(query)})").fetchall()
        return table_of(rows, subject)
    except duckdb.Error as error:
        # Whoever waited as long as it may does not begin anew.
        waited = limit and time.monotonic() - began >= limit
        if waited or LOST.search(str(error).replace(query, "")):
            raise bulk_error(error, subject) from error
    finally:
        with contextlib.suppress(duckdb.Error):
            cursor.execute(f"DETACH DATABASE IF EXISTS {quote_identifier(alias)}")
        cursor.close()
    with connected(settings) as connection:
        return describe_table(connection, name, subject, shared=True)
