"""The check ``freshness``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from pz_core.checks.body import BodyReader, column_sql, from_sql, mapping_schema
from pz_core.contract.check import CheckDefinition, CheckQuery
from pz_core.contract.refusals import refusal
from pz_core.values import Value, quote_literal
from pz_core.values.durations import DURATION_PATTERN, parse_duration


class Freshness:
    """Fails once where the newest instant of a column is older than ``max_age``, or where there is none.

    The column is a date (midnight), a timestamp (taken as UTC) or an instant. Exactly at the limit passes.
    """

    name: ClassVar[str] = "freshness"
    body_schema: ClassVar[Mapping[str, Any]] = mapping_schema(
        ["max_age"], column=True, max_age={"type": "string", "pattern": DURATION_PATTERN}
    )

    def define(self, body: Value) -> CheckDefinition:
        """Read ``{column, max_age}``.

        Raises:
            CheckFault: if there is not exactly one column, or ``max_age`` is no duration above zero.
        """
        reader = BodyReader(body, ("max_age",), columns=True, needs="a mapping with 'column' and 'max_age'")
        columns = reader.columns(one=True)
        age = reader.get("max_age")
        if age is None or age == "":
            reader.fault("needs option 'max_age', a duration such as 24h")
        elif not parse_duration(age):
            reader.fault("option 'max_age' must be a duration above zero, such as 30m, 24h or 7d")
        reader.done()
        return CheckDefinition(self.name, columns, {"max_age": str(age)})

    def query(self, definition: CheckDefinition, relation: str, now: datetime) -> CheckQuery:
        """One violation where it is too old; the newest value and the limit are the detail."""
        limit = quote_literal(_limit(now, str(definition.options["max_age"])))
        newest = f"max({column_sql(definition.columns[0])})"
        kind = f"typeof({newest})"
        # Through text, so that the query binds whatever the column's type is and a wrong one is told in our words.
        instant = f"TRY_CAST(CAST({newest} AS VARCHAR) AS TIMESTAMP WITH TIME ZONE)"
        complaint = quote_literal(f"freshness needs a date or timestamp column; '{definition.columns[0]}' is ")
        return CheckQuery(
            f"SELECT CASE WHEN NOT ({kind} = 'DATE' OR starts_with({kind}, 'TIMESTAMP')) "
            f"THEN {refusal('PZ0501', f'{complaint} || {kind}')} "
            f"WHEN {newest} IS NULL OR {instant} < CAST({limit} AS TIMESTAMP WITH TIME ZONE) THEN 1 ELSE 0 END "
            f"{from_sql(relation)}",
            detail=f"SELECT CAST({newest} AS VARCHAR) AS newest, {limit} AS oldest_allowed {from_sql(relation)}",
            unit="columns",
        )


def _limit(now: datetime, max_age: str) -> str:
    """The oldest instant that passes, as text in UTC; the first one there is where ``max_age`` reaches beyond it."""
    utc = now.replace(tzinfo=UTC) if now.tzinfo is None else now.astimezone(UTC)
    try:
        oldest = utc - timedelta(milliseconds=parse_duration(max_age) or 0)
    except OverflowError:
        oldest = datetime.min.replace(tzinfo=UTC)
    return oldest.isoformat(sep=" ", timespec="microseconds")
