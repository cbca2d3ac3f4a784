"""What the server may leave out by itself: bounds of a cursor, and the parts of a filter that mean the same there.

The pipeline's own WHERE runs over what landed, so a part that is not sure to mean the same is simply not sent: texts
are compared for equality only (collations order them differently), and nothing is sent that PostgreSQL and DuckDB
might round in different ways.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pz_core.contract.connector import CursorBounds
from pz_core.values import quote_identifier, quote_literal
from pz_postgres.catalog import PgColumn

_INTEGERS = frozenset({"int2", "int4", "int8"})
_COMPARED = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EQUALITIES = frozenset({"=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
#: Type of a cursor -> the base types of a column that compare with it exactly.
_CURSORS: Mapping[str, frozenset[str]] = {
    "int": _INTEGERS | {"numeric"},
    "bigint": _INTEGERS | {"numeric"},
    "decimal": _INTEGERS | {"numeric"},
    "date": frozenset({"date", "timestamp", "timestamptz"}),
    "timestamp": frozenset({"date", "timestamp", "timestamptz"}),
    "timestamptz": frozenset({"date", "timestamp", "timestamptz"}),
}


class _Stays(Exception):
    """A part of the filter that is left to the pipeline."""


def bounds_of(bounds: CursorBounds | None, columns: Sequence[PgColumn]) -> str | None:
    """The bounds of a read as a condition for the server, ``None`` where there is nothing to send."""
    if bounds is None or (bounds.lower is None and bounds.upper is None):
        return None
    column = _named(bounds.cursor, columns)
    if column is None or not _plain(column):
        return None
    name = quote_identifier(column.name)
    parts: list[str] = []
    try:
        if bounds.lower is not None:
            parts.append(f"{name} {'>=' if bounds.lower_inclusive else '>'} {_bound(bounds, bounds.lower, column)}")
        if bounds.upper is not None:
            upper = f"{name} {'<=' if bounds.upper_inclusive else '<'} {_bound(bounds, bounds.upper, column)}"
            parts.append(upper if bounds.lower is not None else f"({upper} OR {name} IS NULL)")
    except _Stays:
        return None
    condition = " AND ".join(parts)
    return f"({condition}) OR {name} IS NULL" if bounds.with_nulls and bounds.lower is not None else condition


def _bound(bounds: CursorBounds, text: str, column: PgColumn) -> str:
    word = (bounds.type or "").split("(")[0]
    if column.base not in _CURSORS.get(word, ()):
        raise _Stays
    if word in ("int", "bigint", "decimal"):
        if not _NUMBER.fullmatch(text):
            raise _Stays
        return f"{quote_literal(text)}::pg_catalog.numeric" if "." in text or column.base == "numeric" else text
    kind = "timestamptz" if column.base == "timestamptz" or word == "timestamptz" else "timestamp"
    kind = "date" if word == "date" and column.base == "date" else kind
    if kind == "timestamptz" and not re.search(r"(Z|[+-]\d\d(:?\d\d)?)$", text[10:]):
        text += "+00" if _MOMENT.fullmatch(text) and len(text) > len("2026-01-01") else ""
    return f"{quote_literal(text)}::pg_catalog.{kind}"


def pushed(predicate: str | None, columns: Sequence[PgColumn]) -> tuple[str, ...]:
    """The parts of a filter in DuckDB's SQL that the server gets.

    Args:
        predicate: over columns of the dataset.
        columns: of the place.
    """
    if predicate is None:
        return ()
    import duckdb

    with duckdb.connect(":memory:") as parser:
        row = parser.execute(
            "SELECT json_serialize_sql(?)",
            [f"SELECT * FROM pz_rows WHERE {predicate}"],
        ).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree.get("error"):
        return ()
    made: list[str] = []
    for part in _conjuncts(tree["statements"][0]["node"].get("where_clause") or {}):
        try:
            made.append(_condition(part, columns))
        except _Stays:
            continue
    return tuple(made)


def _conjuncts(tree: dict[str, Any]) -> list[dict[str, Any]]:
    if tree.get("type") == "CONJUNCTION_AND":
        return [part for child in tree["children"] for part in _conjuncts(child)]
    return [tree] if tree else []


def _condition(tree: dict[str, Any], columns: Sequence[PgColumn]) -> str:
    kind, word = tree.get("class"), str(tree.get("type"))
    if kind == "CONJUNCTION":
        joint = " AND " if word == "CONJUNCTION_AND" else " OR "
        return joint.join(f"({_condition(child, columns)})" for child in tree["children"])
    if kind == "COMPARISON" and word in _COMPARED:
        operator, left, right = _COMPARED[word], tree["left"], tree["right"]
        if left.get("class") != "COLUMN_REF":
            operator, left, right = _FLIPPED.get(operator, operator), right, left
        column = _column(left, columns)
        return f"{quote_identifier(column.name)} {operator} {_constant(right, column, operator)}"
    if kind == "BETWEEN":
        column = _column(tree["input"], columns)
        name = quote_identifier(column.name)
        lower, upper = (_constant(tree[side], column, "<=") for side in ("lower", "upper"))
        return f"{name} >= {lower} AND {name} <= {upper}"
    if kind == "OPERATOR":
        children = tree.get("children", [])
        if word == "OPERATOR_NOT":
            return f"NOT ({_condition(children[0], columns)})"
        if word in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            column = _column(children[0], columns)
            if column.kind not in ("b", "e", "r", "m"):
                raise _Stays  # a row of nothing but NULL is NULL to PostgreSQL
            return f"{quote_identifier(column.name)} {'IS NULL' if word == 'OPERATOR_IS_NULL' else 'IS NOT NULL'}"
        if word in ("COMPARE_IN", "COMPARE_NOT_IN"):
            column = _column(children[0], columns)
            listed = ", ".join(_constant(child, column, "=") for child in children[1:])
            return f"{quote_identifier(column.name)} {'IN' if word == 'COMPARE_IN' else 'NOT IN'} ({listed})"
    raise _Stays


def _column(tree: dict[str, Any], columns: Sequence[PgColumn]) -> PgColumn:
    names = tree.get("column_names") if tree.get("class") == "COLUMN_REF" else None
    found = _named(names[0], columns) if names and len(names) == 1 else None
    if found is None:
        raise _Stays
    return found


def _named(name: str, columns: Sequence[PgColumn]) -> PgColumn | None:
    return next((c for c in columns if c.name.casefold() == name.casefold()), None)


def _plain(column: PgColumn) -> bool:
    return column.kind == "b" and column.system and not column.array


def _constant(tree: dict[str, Any], column: PgColumn, operator: str) -> str:
    """A constant as the server gets it.

    Raises:
        _Stays: if it might not compare there as it does here.
    """
    kind, value, cast = _value(tree)
    base = column.base
    if not _plain(column):
        raise _Stays
    if base in ("text", "varchar"):
        if (
            kind != "VARCHAR"
            or cast not in (None, "VARCHAR")
            or operator not in _EQUALITIES
            or not column.deterministic
        ):
            raise _Stays
        if "\0" in str(value):
            raise _Stays
        return f"{quote_literal(str(value))}::pg_catalog.text"
    if base in _INTEGERS | {"numeric"}:
        if kind not in ("INTEGER", "BIGINT", "DECIMAL") or cast not in (None, "INTEGER", "BIGINT"):
            raise _Stays
        if cast is not None and kind == "DECIMAL":
            raise _Stays
        return (
            f"{quote_literal(str(value))}::pg_catalog.numeric" if kind == "DECIMAL" or base == "numeric" else str(value)
        )
    if base == "bool":
        if kind != "BOOLEAN" and not (kind == "VARCHAR" and cast == "BOOLEAN" and value in ("t", "f", "true", "false")):
            raise _Stays
        return "true" if value in (True, "t", "true") else "false"
    if base in ("date", "timestamp", "timestamptz"):
        return _moment(kind, str(value), cast, base)
    raise _Stays


def _moment(kind: str, text: str, cast: str | None, base: str) -> str:
    if kind != "VARCHAR" or not _MOMENT.fullmatch(text) or text < "0001":
        raise _Stays
    if cast not in (None, "DATE", "TIMESTAMP"):
        raise _Stays
    only_day = bool(_DAY.fullmatch(text))
    if (base == "date" or cast == "DATE") and not only_day:
        raise _Stays
    if base == "timestamptz" and not only_day:
        text += "+00"
    return f"{quote_literal(text)}::pg_catalog.{base}"


def _value(tree: dict[str, Any]) -> tuple[str, Any, str | None]:
    """Kind and value of a constant, and the type that it is cast to."""
    cast = None
    if tree.get("class") == "CAST":
        cast = str(tree.get("cast_type", {}).get("id"))
        tree = tree["child"]
    value = tree.get("value") if tree.get("class") == "CONSTANT" else None
    if not isinstance(value, dict) or value.get("is_null", True):
        raise _Stays
    kind = str(value["type"]["id"])
    if kind == "DECIMAL":
        scale = int((value["type"].get("type_info") or {}).get("scale", 0))
        number = int(value["value"])
        digits = str(abs(number)).rjust(scale + 1, "0")
        point = len(digits) - scale
        text = f"{'-' if number < 0 else ''}{digits[:point]}" + (f".{digits[point:]}" if scale else "")
        return kind, text, cast
    return kind, value.get("value"), cast
