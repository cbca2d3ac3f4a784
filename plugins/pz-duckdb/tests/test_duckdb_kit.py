"""The kit's rules on the connector ``duckdb``; with ``PZ_DEEP`` every strategy in every tier."""

from __future__ import annotations

import os

from pz_duckdb.kit import DuckDBSuite


class TestDuckDB(DuckDBSuite):
    quick = "PZ_DEEP" not in os.environ
