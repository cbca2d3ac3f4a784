"""Cutting a read by ranges of a column, so that several connections fetch at once and see the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pz_core.contract.connector import ConnectorError, Partition, ReadSpec
from pz_core.values import quote_identifier, quote_literal
from pz_postgres.catalog import PgColumn, PgTable
from pz_postgres.control import ask

if TYPE_CHECKING:
    import psycopg

_INTEGERS = frozenset({"int2", "int4", "int8"})
_NUMBERS = _INTEGERS | {"numeric", "float4", "float8"}
_MOMENTS = frozenset({"date", "timestamp", "timestamptz"})


def partitions_of(
    connection: psycopg.Connection[Any], table: PgTable, relation: str, spec: ReadSpec, count: int, subject: str
) -> Sequence[Partition]:
    """Parts of a read, as data. The first has every row below its bound and those without a value, the last the rest.

    Args:
        connection: stays open while the parts are read: its transaction is the moment that all of them see.
        table: what is read.
        relation: it, for the server.
        spec: of the read.
        count: how many parts are wished.
        subject: for messages.

    Raises:
        ConnectorError: PZ0353 if there is no such column, or its type has no ranges.
    """
    column = _column(table, spec, subject)
    name = quote_identifier(column.name)
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    (snapshot,) = ask(connection, "SELECT pg_catalog.pg_export_snapshot()", (), subject)[0]
    number = f"extract(epoch FROM {name})" if column.base in _MOMENTS else name
    finite = f"{name} > '-infinity' AND {name} < 'infinity'"
    if column.base in _INTEGERS:
        finite = f"{name} IS NOT NULL"
    whole = "ceil" if column.base in _INTEGERS else ""
    steps = ", ".join(
        f"{whole}(lo::numeric + (hi::numeric - lo::numeric) * {i} / {count})::pg_catalog.text" for i in range(1, count)
    )
    sql = (
        f"SELECT lo IS NULL OR lo = hi, {steps} FROM (SELECT min({number}) AS lo, max({number}) AS hi "
        f"FROM {relation} AS pz_rows WHERE {finite}) AS pz_range"
    )
    row = ask(connection, sql, (), subject)[0]
    if row[0]:
        return (Partition(payload={"snapshot": snapshot}),)
    cuts = list(dict.fromkeys(str(value) for value in row[1:]))
    edges = [None, *cuts, None]
    return tuple(
        Partition(
            ordinal=i, payload={"snapshot": snapshot, "column": column.name, "lower": low or "", "upper": high or ""}
        )
        for i, (low, high) in enumerate(pairwise(edges))
    )


def condition_of(partition: Partition, table: PgTable) -> str | None:
    """The condition for the server that cuts a part out."""
    name = partition.payload.get("column")
    if not name:
        return None
    column = next(c for c in table.columns if c.name == name)
    quoted = quote_identifier(column.name)
    lower, upper = str(partition.payload.get("lower", "")), str(partition.payload.get("upper", ""))
    parts = []
    if lower:
        parts.append(f"{quoted} >= {_edge(lower, column)}")
    if upper:
        parts.append(f"{quoted} < {_edge(upper, column)}")
    condition = " AND ".join(parts)
    return condition if lower else f"{condition} OR {quoted} IS NULL"


def _edge(text: str, column: PgColumn) -> str:
    if column.base in _INTEGERS:
        return str(int(text))
    value = f"{quote_literal(text)}::pg_catalog.numeric"
    if column.base in _MOMENTS:
        instant = f"pg_catalog.to_timestamp({quote_literal(text)}::pg_catalog.float8)"
        return instant if column.base == "timestamptz" else f"({instant} AT TIME ZONE 'UTC')"
    return f"{value}::pg_catalog.float8" if column.base in ("float4", "float8") else value


def _column(table: PgTable, spec: ReadSpec, subject: str) -> PgColumn:
    wanted = str(spec.options.get("partition_column"))
    found = next((c for c in table.columns if c.name == wanted), None) or next(
        (c for c in table.columns if c.name.casefold() == wanted.casefold()), None
    )
    if found is None:
        raise ConnectorError(
            f"{subject}: partition_column '{wanted}' is not there",
            code="PZ0353",
            hint=f"correct it; there are {', '.join(c.name for c in table.columns)}",
        )
    if found.array or not found.system or found.base not in _NUMBERS | _MOMENTS:
        raise ConnectorError(
            f"{subject}: partition_column '{found.name}' is {found.shown}, which has no ranges to cut",
            code="PZ0353",
            hint="choose an integer, a float, a numeric, a date or a timestamp column",
        )
    return found
