"""Texts of the log as a relation of the server: every column in a type from which it is read as from the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pz_core.values import quote_identifier, quote_literal
from pz_postgres.capture_wire import UNCHANGED, Text
from pz_postgres.catalog import PgColumn
from pz_postgres.reading import ARRAYS, BINARY, INSTANTS, JSON

_OWN = frozenset({"numeric", "money", "oid"})


def carrier(column: PgColumn) -> str:
    """The type in which a text of the log is given back: the column's own where its reading depends on it, else text.

    What a domain or a length demands was met when the value was stored, and is not asked for again.
    """
    if column.kind == "b" and column.system:
        if column.array:
            known = not column.domain and column.base in ARRAYS | INSTANTS | {"numeric"}
            return f"pg_catalog.{quote_identifier(column.base)}[]" if known else "pg_catalog.text"
        if column.base in _OWN or column.base in JSON or column.base in BINARY:
            return f"pg_catalog.{quote_identifier(column.base)}"
    return "pg_catalog.text"


def relation(
    envelope: Sequence[str],
    heads: Sequence[tuple[str, int, str, str]],
    columns: Sequence[PgColumn],
    keys: Sequence[str],
    rows: Sequence[Mapping[str, Text]],
    table: str,
) -> str:
    """A subquery of the server that yields changes under the columns' names.

    Args:
        envelope: names of the first columns.
        heads: their values, one tuple a row.
        columns: of the table, those that are read.
        keys: its key columns.
        rows: the values by column; one that is missing is NULL, one that was not written anew is taken from the table.
        table: quoted name of the table.
    """
    carriers = [carrier(c) for c in columns]
    open_rows = [[c.name for c in columns if row.get(c.name) is UNCHANGED] for row in rows]
    looked_up = {name for names in open_rows for name in names}
    first = ["NULL::pg_catalog.text", "NULL::pg_catalog.int8", "NULL::pg_catalog.text", "NULL::pg_catalog.timestamptz"]
    first += [f"NULL::{kind}" for kind in carriers] + ["NULL::pg_catalog.text[]"]
    lines = [f"({', '.join(first)})"]
    for head, row, names in zip(heads, rows, open_rows, strict=True):
        op, order, position, at = head
        values = [quote_literal(op), str(order), quote_literal(position), quote_literal(at)]
        values += [_literal(row.get(c.name)) for c in columns]
        values.append(f"ARRAY[{', '.join(quote_literal(n) for n in names)}]::pg_catalog.text[]" if names else "NULL")
        lines.append(f"({', '.join(values)})")
    places = [f"h{i}" for i in range(len(envelope))] + [f"c{i}" for i in range(len(columns))]
    selected = [f"v.h{i} AS {quote_identifier(name)}" for i, name in enumerate(envelope)]
    for i, (column, kind) in enumerate(zip(columns, carriers, strict=True)):
        value = f"v.c{i}"
        if column.name in looked_up:
            asked = f"{quote_literal(column.name)} = ANY (v.looked_up)"
            value = f"CASE WHEN {asked} THEN {_there(column, kind)} ELSE {value} END"
        selected.append(f"{value} AS {quote_identifier(column.name)}")
    joined = ""
    if looked_up:
        same = " AND ".join(f"t.{quote_identifier(key)} = {_key(columns, carriers, key)}" for key in keys)
        joined = f" LEFT JOIN {table} AS t ON v.looked_up IS NOT NULL AND {same}"
    body = f"VALUES {', '.join(lines)} OFFSET 1"
    return f"(SELECT {', '.join(selected)} FROM ({body}) AS v({', '.join(places)}, looked_up){joined})"


def _literal(value: Text | None) -> str:
    return quote_literal(value) if isinstance(value, str) else "NULL"


def _there(column: PgColumn, kind: str) -> str:
    """The table's own value in the form that the log would have it in."""
    own = f"t.{quote_identifier(column.name)}"
    if kind == "pg_catalog.text":
        return f"CASE WHEN {own} IS DISTINCT FROM NULL THEN pg_catalog.concat({own}) END"
    return f"{own}::{kind}"


def _key(columns: Sequence[PgColumn], carriers: Sequence[str], name: str) -> str:
    at = next(i for i, c in enumerate(columns) if c.name == name)
    own = columns[at].shown
    return f"v.c{at}::{own}" if carriers[at] == "pg_catalog.text" else f"v.c{at}"
