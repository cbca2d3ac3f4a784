"""A look at the catalog by DuckDB's extension, which a read needs anyhow.

psycopg takes longer to import than a small read takes. It is asked only where the extension could not tell: it knows
why a server refuses.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pz_core.values import quote_identifier, quote_literal
from pz_postgres.control import connection_error
from pz_postgres.local import LOCAL, bulk_error
from pz_postgres.settings import Settings

if TYPE_CHECKING:
    import duckdb

#: A wait that ended: whoever asks again waits as long once more.
_NO_ANSWER = re.compile(r"timeout expired|timed out")
_GIVEN_UP = re.compile(r"canceling statement due to|lock timeout", re.IGNORECASE)
_MARK = re.compile(r"%[s%]")


class OwnLook(Struct, frozen=True):
    """A look over a database that is attached to a DuckDB of our own; see :class:`~pz_postgres.control.Look`.

    Args:
        cursor: of that DuckDB.
        alias: unquoted name of the attached database.
        subject: ``connection.entity``, for messages.
    """

    cursor: duckdb.DuckDBPyConnection
    alias: str
    subject: str

    def ask(self, sql: str, *params: str) -> list[tuple[Any, ...]]:
        """Rows of one statement.

        Raises:
            duckdb.Error: where there is no answer.
        """
        given = iter(params)
        filled = _MARK.sub(lambda mark: "%" if mark[0] == "%%" else quote_literal(next(given)), sql)
        asked = f"SELECT * FROM postgres_query({quote_literal(self.alias)}, {quote_literal(filled)})"
        return self.cursor.execute(asked).fetchall()

    def version(self) -> int:
        """Of the server."""
        return int(self.ask("SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4")[0][0])


@contextlib.contextmanager
def looking(cursor: duckdb.DuckDBPyConnection, settings: Settings, subject: str) -> Iterator[OwnLook]:
    """Attach the database for a look.

    Args:
        cursor: of :data:`~pz_postgres.local.LOCAL`.
        settings: of the connection.
        subject: ``connection.entity``, for messages.

    Raises:
        duckdb.Error: where something else has to be asked.
        ConnectorError: where the server was waited for as long as it may be, or the look was interrupted; PZ0311 if the
            extension is not installed.
    """
    import duckdb

    alias = LOCAL.unique(settings.alias("look"))
    session = {"join_collapse_limit": "1"}  # joins stand in the order that is best; planning takes longer than running
    if settings.command_timeout:
        session["statement_timeout"] = str(settings.command_timeout * 1000)
    try:
        for step in settings.setup(alias, **session):
            LOCAL.set_up(cursor, step)
        yield OwnLook(cursor, alias, subject)
    except duckdb.InterruptException as error:
        raise bulk_error(error, subject) from None
    except duckdb.Error as error:
        text = str(error)
        if _NO_ANSWER.search(text):
            raise connection_error(error, settings) from None
        if _GIVEN_UP.search(text):
            raise bulk_error(error, subject) from error
        raise
    finally:
        with contextlib.suppress(Exception):
            cursor.execute(f"DETACH DATABASE IF EXISTS {quote_identifier(alias)}")
