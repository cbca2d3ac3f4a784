"""Texts of the log as a relation of the server: every column in a type from which it is read as from the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pz_core.values import quote_identifier, quote_literal
from pz_postgres.capture_wire import UNCHANGED, Text
from pz_postgres.catalog import PgColumn
from pz_postgres.reading import ARRAYS, BINARY, INSTANTS, JSON

#: Types of the envelope's columns.
_HEAD = ("pg_catalog.text", "pg_catalog.int8", "pg_catalog.text", "pg_catalog.timestamptz")
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
    fields: list[list[str | None]] = [[str(head[at]) for head in heads] for at in range(len(envelope))]
    fields += [[_text(row.get(c.name)) for row in rows] for c in columns]
    fields.append([_array(names) if names else None for names in open_rows])
    given = ", ".join(f"pg_catalog.unnest({quote_literal(_array(values))}::pg_catalog.text[])" for values in fields)
    places = [f"h{i}" for i in range(len(envelope))] + [f"c{i}" for i in range(len(columns))]
    typed = enumerate(zip(envelope, _HEAD, strict=True))
    selected = [f"v.h{i}::{kind} AS {quote_identifier(name)}" for i, (name, kind) in typed]
    for i, (column, kind) in enumerate(zip(columns, carriers, strict=True)):
        value = f"v.c{i}::{kind}"
        if column.name in looked_up:
            asked = f"{quote_literal(column.name)} = ANY (v.looked_up::pg_catalog.text[])"
            value = f"CASE WHEN {asked} THEN {_there(column, kind)} ELSE {value} END"
        selected.append(f"{value} AS {quote_identifier(column.name)}")
    joined = ""
    if looked_up:
        same = " AND ".join(f"t.{quote_identifier(key)} = {_key(columns, carriers, key)}" for key in keys)
        joined = f" LEFT JOIN {table} AS t ON v.looked_up IS NOT NULL AND {same}"
    body = f"ROWS FROM ({given}) AS v({', '.join(places)}, looked_up)"
    return f"(SELECT {', '.join(selected)} FROM {body}{joined})"


def _text(value: Text | None) -> str | None:
    return value if isinstance(value, str) else None


def _array(values: Sequence[str | None]) -> str:
    """An array of texts as PostgreSQL reads it: one literal is parsed far quicker than a list of values."""
    return "{" + ",".join(["NULL" if v is None else f'"{_escaped(v)}"' for v in values]) + "}"


def _escaped(value: str) -> str:
    if '"' not in value and "\\" not in value:
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _there(column: PgColumn, kind: str) -> str:
    """The table's own value in the form that the log would have it in."""
    own = f"t.{quote_identifier(column.name)}"
    if kind == "pg_catalog.text":
        return f"CASE WHEN {own} IS DISTINCT FROM NULL THEN pg_catalog.concat({own}) END"
    return f"{own}::{kind}"


def _key(columns: Sequence[PgColumn], carriers: Sequence[str], name: str) -> str:
    at = next(i for i, c in enumerate(columns) if c.name == name)
    own = columns[at].shown
    return f"v.c{at}::{own if carriers[at] == 'pg_catalog.text' else carriers[at]}"
