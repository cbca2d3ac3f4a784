"""The kit's rules on the connector ``duckdb``."""

from __future__ import annotations

from pz_duckdb.kit import DuckDBSuite


class TestDuckDB(DuckDBSuite):
    pass
