"""A DuckDB of the connector's own: nothing in it but what one attempt reads or writes."""

from __future__ import annotations

import duckdb


def private_database(temp_directory: str | None = None) -> duckdb.DuckDBPyConnection:
    """An in-memory database with time zone UTC, without extensions from outside, that hands types on unchanged."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    if temp_directory is not None:
        config["temp_directory"] = temp_directory
    made = duckdb.connect(":memory:", config=config)
    made.execute("SET TimeZone = 'UTC'")
    made.execute("SET arrow_lossless_conversion = true")
    return made
