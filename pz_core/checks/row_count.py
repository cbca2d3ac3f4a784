"""The check ``row_count``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from pz_core.checks.body import BodyReader, from_sql, mapping_schema
from pz_core.contract.check import CheckDefinition, CheckQuery
from pz_core.values import Value


class RowCount:
    """Fails once where the number of rows is below ``min`` or above ``max``, both inclusive."""

    name: ClassVar[str] = "row_count"
    body_schema: ClassVar[Mapping[str, Any]] = {
        **mapping_schema(min={"type": "integer"}, max={"type": "integer"}),
        "anyOf": [{"required": ["min"]}, {"required": ["max"]}],
    }

    def define(self, body: Value) -> CheckDefinition:
        """Read ``{min, max}``, whole numbers, at least one of them.

        Raises:
            CheckFault: if neither is there, one is no whole number, or ``min`` is above ``max``.
        """
        reader = BodyReader(body, ("min", "max"), columns=False, needs="a mapping with 'min', 'max' or both")
        bounds: dict[str, int] = {}
        for name in ("min", "max"):
            value = reader.get(name)
            if value is None:
                continue
            if isinstance(value, int) and not isinstance(value, bool):
                bounds[name] = value
            else:
                reader.fault(f"option '{name}' must be a whole number")
        if reader.get("min") is None and reader.get("max") is None:
            reader.fault("needs option 'min', 'max' or both")
        if len(bounds) == 2 and bounds["min"] > bounds["max"]:
            reader.fault(f"option 'min' ({bounds['min']}) is above option 'max' ({bounds['max']})")
        reader.done()
        return CheckDefinition(self.name, options=bounds)

    def query(self, definition: CheckDefinition, relation: str, now: datetime) -> CheckQuery:
        """One violation outside the bounds; the count itself is the detail."""
        outside = [
            f"count(*) {operator} {int(str(definition.options[name]))}"
            for name, operator in (("min", "<"), ("max", ">"))
            if name in definition.options
        ]
        bounds = ", ".join(f"{int(str(v))} AS {k}" for k, v in sorted(definition.options.items(), reverse=True))
        return CheckQuery(
            f"SELECT CASE WHEN {' OR '.join(outside)} THEN 1 ELSE 0 END {from_sql(relation)}",
            detail=f"SELECT count(*) AS count, {bounds} {from_sql(relation)}",
            unit="counts",
        )
