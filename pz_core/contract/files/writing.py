"""Writing files: the one place that says how rows become a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pz_core.contract.files.formats import Format
from pz_core.contract.refusals import refusal
from pz_core.values import Column, Value, quote_identifier, quote_literal

_HUGE = ("HUGEINT", "UHUGEINT")
#: Types of which parquet keeps less than DuckDB: how they begin, a test of the value's text, why, and the way out.
_INEXACT = {
    "INTERVAL": (
        "regexp_matches({text}, '\\.[0-9]{{3}}[0-9]*[1-9]')",
        "holds an interval with microseconds, of which parquet keeps the milliseconds",
        "cast it to varchar in the pipeline",
    ),
    "TIME WITH TIME ZONE": (
        "{text} NOT LIKE '%+00'",
        "holds a time with an offset, which parquet would move to UTC",
        "cast it to varchar in the pipeline",
    ),
    "UNION(%": (
        "{text} IS NOT NULL",
        "is a union, of which parquet does not keep what member a value is",
        "take the members apart in the pipeline with union_extract()",
    ),
}
#: A decimal of nothing but fraction digits: DuckDB 1.5.5 spells it `.5` in JSON, which is no JSON.
_POINT_FIRST = re.compile(r"DECIMAL\((\d+),\1\)")
_WIDEST = "99999999999999999999999999999999999999"


def copy_options(file_format: Format, options: Mapping[str, Value]) -> str:
    """The options of DuckDB's COPY, without parentheses.

    In csv NULL is an empty field and the empty text is ``""``; lines end in a newline, the text is UTF-8.
    """
    compression = str(options.get("compression", "snappy" if file_format == "parquet" else "none"))
    if file_format == "parquet":
        return f"FORMAT parquet, COMPRESSION {compression}"
    if file_format == "json":
        array = ", ARRAY true" if options.get("layout") == "array" else ""
        return f"FORMAT json{array}, COMPRESSION {compression}"
    delimiter = "\t" if file_format == "tsv" else str(options.get("delimiter", ","))
    header = str(bool(options.get("header", True))).lower()
    return (
        f"FORMAT csv, HEADER {header}, DELIMITER {quote_literal(delimiter)}, QUOTE '\"', ESCAPE '\"', NULLSTR '', "
        f"COMPRESSION {compression}"
    )


def copy_projection(file_format: Format, columns: Sequence[Column] | None = None) -> str:
    """The SELECT list that a COPY reads, with a guard for what the format cannot hold (PZ0812).

    Args:
        file_format: of the file.
        columns: of the rows. Without them whole numbers beyond 64 bits go to parquet as DOUBLE where that is exact and
            are refused where it is not; with them they become ``DECIMAL(38,0)``.
    """
    if file_format == "json":
        if columns is None or not any(_POINT_FIRST.search(c.type) or "JSON" in c.type for c in columns):
            return _guarded_json()
        return ", ".join(_json_column(column) for column in columns)
    if file_format == "parquet":
        if columns is None:
            return _guarded_parquet()
        return ", ".join(_parquet_column(column) for column in columns)
    return "*"


def _parquet_column(column: Column) -> str:
    name = quote_identifier(column.name)
    inexact = _inexact(column.type, name)
    if inexact is not None:
        test, why, hint = inexact
        stop = refusal("PZ0812", quote_literal(f"column '{column.name}' {why}"), quote_literal(hint))
        return f"CASE WHEN {test} THEN {stop} ELSE {name} END AS {name}"
    if column.type not in _HUGE:
        return name
    low = f"-{_WIDEST}" if column.type == "HUGEINT" else "0"
    fits = f"{name} IS NULL OR {name} BETWEEN {low}::{column.type} AND {_WIDEST}::{column.type}"
    message = quote_literal(
        f"column '{column.name}' holds a whole number of more than 38 digits, which parquet cannot hold"
    )
    stop = refusal("PZ0812", message, quote_literal("cast it to varchar in the pipeline"))
    return f"CAST(CASE WHEN {fits} THEN {name} ELSE {stop} END AS DECIMAL(38,0)) AS {name}"


# In both guards COLUMNS(*) stands for each column in turn; `typeof` is folded, so columns of other types cost nothing.


def _guarded_json() -> str:
    column = "COLUMNS(*)"
    return f"{_finite(column, f'alias({column})')} AS '\\0'"


def _finite(column: str, alias: str) -> str:
    """A column with a guard against NaN and the infinities, at the top and inside."""
    message = f"'column ''' || {alias} || ''' holds NaN or an infinity, which JSON cannot hold'"
    stop = refusal("PZ0812", message, quote_literal("replace it by NULL or by a text in the pipeline"))
    flat = f"typeof({column}) IN ('DOUBLE', 'FLOAT')"
    nested = f"(typeof({column}) LIKE '%DOUBLE%' OR typeof({column}) LIKE '%FLOAT%')"
    text = f"CAST({column} AS VARCHAR)"
    words = "'(^|[^A-Za-z0-9_\"''])-?(nan|inf|NaN|Infinity)($|[^A-Za-z0-9_\"''])'"
    return (
        f"CASE WHEN {flat} AND lower({text}) IN ('nan', '-nan', 'inf', '-inf') THEN {stop} "
        f"WHEN NOT {flat} AND {nested} AND regexp_matches({text}, {words}) THEN {stop} ELSE {column} END"
    )


def _json_column(column: Column) -> str:
    name = quote_identifier(column.name)
    digits = _POINT_FIRST.fullmatch(column.type)
    if digits and digits[1] != "38":
        return f"CAST({name} AS DECIMAL({int(digits[1]) + 1},{digits[1]})) AS {name}"
    if digits:
        shorter = f"CAST({name} AS DECIMAL(38,37))"
        message = f"column '{column.name}' holds a decimal of 38 fraction digits, which JSON is not written with"
        stop = refusal("PZ0812", quote_literal(message), quote_literal("cast it to varchar in the pipeline"))
        exact = f"coalesce(CAST({name} AS VARCHAR) LIKE '%0', true)"
        return f"CASE WHEN {exact} THEN {shorter} ELSE {stop} END AS {name}"
    if _POINT_FIRST.search(column.type):
        message = (
            f"column '{column.name}' holds decimals without a digit before the point inside, which JSON cannot hold"
        )
        stop = refusal("PZ0812", quote_literal(message), quote_literal("cast them to varchar in the pipeline"))
        return f"CASE WHEN {name} IS NOT NULL THEN {stop} ELSE {name} END AS {name}"
    if "JSON" in column.type:
        message = f"column '{column.name}' holds JSON with a number of more digits than DuckDB writes"
        stop = refusal("PZ0812", quote_literal(message), quote_literal("cast the column to varchar in the pipeline"))
        kept = _finite(name, quote_literal(column.name))
        return f"CASE WHEN {_rounded(name)} THEN {stop} ELSE {kept} END AS {name}"
    return f"{_finite(name, quote_literal(column.name))} AS {name}"


def _rounded(column: str) -> str:
    """Whether JSON holds a fraction that changes when it becomes a DOUBLE, as it does when DuckDB 1.5.5 writes JSON."""
    bare = f"regexp_replace(CAST({column} AS VARCHAR), '\"(?:[^\"\\\\]|\\\\.)*\"', '\"\"', 'g')"
    numbers = f"regexp_extract_all({bare}, '-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?')"
    # Whole numbers of any length are kept as they are, and fewer than 16 digits are never rounded.
    long = "length(regexp_replace(n, '[eE].*|[^0-9]', '', 'g')) > 15 AND regexp_matches(n, '[.eE]')"
    digits = "regexp_replace(n, '([.][0-9]*?)0+$', '\\1')"
    changed = f"{long} AND CAST(TRY_CAST(n AS DOUBLE) AS VARCHAR) <> {digits}"
    return f"coalesce(len(list_filter({numbers}, lambda n: {changed})) > 0, false)"


def _guarded_parquet() -> str:
    column = "COLUMNS(*)"
    message = f"'column ''' || alias({column}) || ''' holds a whole number that parquet would round'"
    stop = refusal("PZ0812", message, quote_literal("cast it to decimal(38,0) in the pipeline"))
    text = f"CAST({column} AS VARCHAR)"
    back = f"CAST(TRY_CAST(TRY_CAST({text} AS DOUBLE) AS HUGEINT) AS VARCHAR)"
    huge = f"typeof({column}) IN ('HUGEINT', 'UHUGEINT')"
    changed = f"{column} IS NOT NULL AND {back} IS DISTINCT FROM {text}"
    others = ""
    for kind, (test, why, hint) in _INEXACT.items():
        told = f"'column ''' || alias({column}) || ''' ' || {quote_literal(why)}"
        found = f"typeof({column}) LIKE {quote_literal(kind)} AND {test.format(text=text)}"
        others += f" WHEN {found} THEN {refusal('PZ0812', told, quote_literal(hint))}"
    return f"CASE WHEN {huge} AND {changed} THEN {stop}{others} ELSE {column} END AS '\\0'"


def _inexact(kind: str, name: str) -> tuple[str, str, str] | None:
    """The test, the reason and the way out for a column of which parquet may keep less than DuckDB."""
    for pattern, (test, why, hint) in _INEXACT.items():
        if kind.startswith(pattern.rstrip("%")):
            return test.format(text=f"CAST({name} AS VARCHAR)"), why, hint
    return None
