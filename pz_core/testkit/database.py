"""A suite whose rules run SQL in a DuckDB of their own."""

from __future__ import annotations

from pz_core.testkit.corpus import memory_database
from pz_core.testkit.rules import Suite
from pz_core.values import quote_identifier


class DatabaseSuite(Suite):
    """Gives each rule an open database and a schema in it, whose name must be quoted."""

    def begin(self) -> None:
        """Open the database."""
        self._database = memory_database()
        self._schema = f"kit {id(self)}"
        self._database.execute(f"CREATE SCHEMA {quote_identifier(self._schema)}")

    def finish(self) -> None:
        """Take it away."""
        self._database.execute(f"DROP SCHEMA {quote_identifier(self._schema)} CASCADE")
        self._database.close()
