"""The check ``not_null``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from pz_core.checks.body import KEYS_SCHEMA, column_sql, from_sql, key_columns
from pz_core.contract.check import CheckDefinition, CheckQuery
from pz_core.values import Value


class NotNull:
    """Counts the rows that have NULL in any of the listed columns; no rows, no violation."""

    name: ClassVar[str] = "not_null"
    body_schema: ClassVar[Mapping[str, Any]] = KEYS_SCHEMA

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
