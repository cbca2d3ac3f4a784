"""The connector ``duckdb``: tables of a DuckDB database file. Importing it costs nothing."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract.registration import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    """The one connector of this package."""
    return [
        Registration(
            name="duckdb",
            target="pz_duckdb.connector:DuckDB",
            summary="tables of a DuckDB database file",
            api=">=1.0,<2",
        )
    ]
