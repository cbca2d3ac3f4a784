"""A DuckDB that is asked about SQL and values, and never about data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def asking_connection() -> DuckDBPyConnection:
    """A connection to an empty database in memory: one thread, time zone UTC, no extension from outside."""
    import duckdb

    made = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "threads": "1",
        },
    )
    made.execute("SET TimeZone = 'UTC'")
    return made
