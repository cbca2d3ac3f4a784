"""The check ``not_null``."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pz_core.checks.body import column_sql, from_sql, key_columns
from pz_core.contract.check import CheckDefinition, CheckQuery
from pz_core.values import Value


class NotNull:
    """Counts the rows that have NULL in any of the listed columns; no rows, no violation."""

    name: ClassVar[str] = "not_null"

    def define(self, body: Value) -> CheckDefinition:
        """Read a list of columns, or a mapping with ``column`` or ``columns``.

        Raises:
            CheckFault: if it names no column or holds anything else.
        """
        return CheckDefinition(self.name, key_columns(body))

    def query(self, definition: CheckDefinition, relation: str, now: datetime) -> CheckQuery:
        """Rows with a NULL, shown whole."""
        holes = " OR ".join(f"{column_sql(c)} IS NULL" for c in definition.columns)
        source = f"{from_sql(relation)} WHERE {holes}"
        return CheckQuery(f"SELECT count(*) {source}", f"SELECT * {source} LIMIT 5")
