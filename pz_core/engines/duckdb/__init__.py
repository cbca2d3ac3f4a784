"""The engine ``duckdb``: one DuckDB in this process, with one database file a run."""

from __future__ import annotations

from pz_core.contract.registration import Registration
from pz_core.plugins.markers import hookimpl


@hookimpl
def pz_engines() -> list[Registration]:
    """The default engine."""
    return [
        Registration(
            "duckdb",
            "pz_core.engines.duckdb.engine:DuckDBEngine",
            "DuckDB in this process, spilling to disk",
            ">=1.0,<2",
        )
    ]
