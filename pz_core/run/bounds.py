"""Bounds that a pipeline's SQL declares, evaluated by DuckDB with the stored watermark in them.

Sources: config-compile.md 5.3 and 5.4 (typed literals and NULLs, conversion back to the cursor's type).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pz_core.compile.model import Incremental
from pz_core.compile.watermark import substitute
from pz_core.errors import PzError
from pz_core.run.slices import Bound, Slice, sql_slice
from pz_core.values.asking import asking_connection
from pz_core.values.duckdb_text import first_line

if TYPE_CHECKING:
    import duckdb

#: What a first run tries in turn where nothing says the cursor's type; ``None`` is a NULL without one.
_GUESSES = (None, "timestamp", "date", "bigint", "decimal", "timestamptz")
_WHOLE = frozenset(f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "BIGINT", "HUGEINT"))
_INTEGERS = _WHOLE | {"INTEGER", "UINTEGER", "BIGNUM"}
_INSTANTS = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"})
_EPOCH = datetime(1970, 1, 1)
_MICROSECONDS_A_DAY = 86_400_000_000
_lock = threading.Lock()
_connection: duckdb.DuckDBPyConnection | None = None


class _Unfit(Exception):
    """A bound that is no value of the cursor's type; the message says what it is."""


class _Value(Struct, frozen=True):
    """A value as DuckDB gave it: its type, and an exact text (microseconds since 1970 for instants)."""

    type: str
    text: str


def typed(kind: str) -> str:
    """The type that a stored watermark has inside an expression: whole numbers are one family, the wider one."""
    return "bigint" if kind == "int" else kind


def evaluate(dataset: str, incremental: Incremental, stored: str | None, kind: str | None) -> Slice:
    """The slice that SQL bounds make.

    Args:
        dataset: ``connection.entity``.
        incremental: with its bounds.
        stored: the watermark, ``None`` where nothing is stored.
        kind: cursor type, ``None`` where nothing says it yet; the first guess that all bounds agree with is used then,
            and whoever knows more asks again.

    Raises:
        PzError: PZ0505 if a bound is no value of the cursor's type, PZ0501 if DuckDB cannot evaluate it.
    """
    if kind is not None:
        try:
            return _evaluated(dataset, incremental, stored, kind, kind)
        except _Unfit as fault:
            raise PzError(
                "PZ0505",
                f"{dataset}: a bound on cursor '{incremental.cursor}' gives {fault}, which is no {kind}",
                hint="write the expression so that it gives the cursor's type, for whole numbers with // instead of /",
            ) from None
        except Exception as error:
            raise PzError(
                "PZ0501",
                f"{dataset}: a bound on cursor '{incremental.cursor}' of type {kind} cannot be evaluated: "
                f"{first_line(str(error))}",
                hint="correct the expression with watermark() in the pipeline's SQL",
                cause=error,
            ) from error
    for guess in _GUESSES:
        try:
            return _evaluated(dataset, incremental, None, guess, None)
        except Exception:  # noqa: BLE001 - a guess that does not bind is a wrong guess
            continue
    return Slice(incremental.cursor)


def _evaluated(
    dataset: str, incremental: Incremental, stored: str | None, inside: str | None, kind: str | None
) -> Slice:
    values: list[tuple[str, _Value]] = []
    types: Mapping[str, str | None] = {dataset: None if inside is None else typed(inside)}
    for bound in incremental.bounds:
        found = _ask(substitute(bound.expression, {dataset: stored}, types))
        if found is not None:
            values.append((bound.op, found))
    kind = kind or next((_kind_of(value) for _, value in values), None)
    floors: list[Bound] = []
    ceilings: list[Bound] = []
    for op, value in values:
        assert kind is not None  # there is a value
        made = _as_bound(value, kind, op)
        (floors if op.startswith(">") else ceilings).append(made)
    return sql_slice(incremental.cursor, kind, floors, ceilings)


def _ask(expression: str) -> _Value | None:
    """A value of DuckDB's, ``None`` for NULL."""
    global _connection
    with _lock:
        if _connection is None:
            _connection = asking_connection()
        base = f"FROM (SELECT ({expression}) AS v)"
        row = _connection.execute(f"SELECT typeof(v), v IS NULL {base}").fetchone()
        if row is None or row[1]:
            return None
        kind = str(row[0])
        if kind in _INSTANTS:
            shown = "CASE WHEN isfinite(v) THEN CAST(epoch_us(v) AS VARCHAR) ELSE 'infinity' END"
        elif kind in ("DOUBLE", "FLOAT"):
            # Only what a decimal says exactly can be a bound.
            exact = "TRY_CAST(v AS DECIMAL(38,9))"
            shown = f"CASE WHEN CAST({exact} AS DOUBLE) = v THEN CAST({exact} AS VARCHAR) END"
        else:
            shown = "CAST(v AS VARCHAR)"
        found = _connection.execute(f"SELECT {shown} {base}").fetchone()
    if found is None or found[0] is None:
        raise _Unfit(f"a {kind} that no decimal says exactly")
    return _Value(kind, str(found[0]))


def _kind_of(value: _Value) -> str:
    if value.type == "DATE":
        return "date"
    if value.type == "TIMESTAMP WITH TIME ZONE":
        return "timestamptz"
    if value.type in _INSTANTS:
        return "timestamp"
    if value.type in _INTEGERS:
        return "bigint"
    if value.type.startswith("DECIMAL"):
        return "decimal"
    raise _Unfit(f"a {value.type}")


def _as_bound(value: _Value, kind: str, op: str) -> Bound:
    """A value in the cursor's type.

    Raises:
        _Unfit: if it is none.
    """
    inclusive = op.endswith("=")
    if kind in ("int", "bigint", "decimal"):
        return Bound(_number(value, whole=kind != "decimal"), inclusive)
    if value.type == "DATE" and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value.text):
        return Bound(value.text if kind == "date" else f"{value.text}T00:00:00.000000", inclusive)
    if value.type not in _INSTANTS:
        raise _Unfit(f"a {value.type}")
    try:
        microseconds = int(value.text)
        at: Any = _EPOCH + timedelta(microseconds=microseconds)
    except (ValueError, OverflowError):
        raise _Unfit(f"a {value.type} outside the years 1 to 9999") from None
    if kind != "date":
        return Bound(f"{at.year:04d}-{at:%m-%dT%H:%M:%S}.{at.microsecond:06d}", inclusive)
    if microseconds % _MICROSECONDS_A_DAY:
        # Within a day: the day itself lies below the bound, the next one above it, whatever the operator says.
        inclusive = op.startswith("<")
    return Bound(f"{at.year:04d}-{at:%m-%d}", inclusive)


def _number(value: _Value, *, whole: bool) -> str:
    if value.type in _INTEGERS:
        return value.text
    if not (value.type.startswith("DECIMAL") or value.type in ("DOUBLE", "FLOAT")):
        raise _Unfit(f"a {value.type}")
    if not whole:
        return value.text
    digits, _, fraction = value.text.partition(".")
    if fraction.strip("0"):
        raise _Unfit(f"a {value.type} with a fraction")
    return digits
