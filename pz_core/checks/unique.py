"""The check ``unique``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from pz_core.checks.body import KEYS_SCHEMA, column_sql, from_sql, key_columns
from pz_core.contract.check import CheckDefinition, CheckQuery
from pz_core.values import Value


class Unique:
    """Counts the keys that occur more than once: groups, not rows. NULLs are one group, so two of them violate."""

    name: ClassVar[str] = "unique"
    body_schema: ClassVar[Mapping[str, Any]] = KEYS_SCHEMA

    def define(self, body: Value) -> CheckDefinition:
        """Read a list of columns, or a mapping with ``column`` or ``columns``.

        Raises:
            CheckFault: if it names no column or holds anything else.
        """
        return CheckDefinition(self.name, key_columns(body))

    def query(self, definition: CheckDefinition, relation: str, now: datetime) -> CheckQuery:
        """Repeated keys, shown with the number of rows that have each; the most frequent first."""
        keys = ", ".join(column_sql(c) for c in definition.columns)
        groups = f"{from_sql(relation)} GROUP BY {keys} HAVING count(*) > 1"
        return CheckQuery(
            f"SELECT count(*) FROM (SELECT 1 {groups}) AS repeated",
            f"SELECT {keys}, count(*) AS times {groups} ORDER BY count(*) DESC, {keys} LIMIT 5",
            unit="key groups",
        )
