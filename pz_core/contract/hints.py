"""Hints against the columns that an entity turns out to have.

A plan is made offline, so hints are made from a query's text alone. Whoever lands the rows knows the columns: names
that the entity does not have are left out, and a filter is kept only where it means the same and cannot fail there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pz_core.contract.connector import ReadHints
from pz_core.values import Column

_NUMBERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE"}
)
_ZONED = "TIMESTAMP WITH TIME ZONE"
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
#: Digits that a DECIMAL can have, and those of a BIGINT.
_MOST_DIGITS, _BIGINT_DIGITS = 38, 19
#: What a constant is -> the column types that it compares with, without a cast of the column that can fail.
_FITS: dict[str, frozenset[str]] = {
    "integer": _NUMBERS | {"HUGEINT"},
    "double": _NUMBERS | {"HUGEINT"},
    "text": frozenset({"VARCHAR"}),
    "date text": frozenset({"VARCHAR", "DATE", "TIMESTAMP", _ZONED}),
    "timestamp text": frozenset({"VARCHAR", "TIMESTAMP", _ZONED}),
    "boolean": frozenset({"BOOLEAN"}),
    "date": frozenset({"DATE", "TIMESTAMP", _ZONED}),
    "timestamp": frozenset({"TIMESTAMP", _ZONED}),
    "timestamptz": frozenset({_ZONED}),
    "time": frozenset({"TIME"}),
}


def _fits(need: str, kind: str) -> bool:
    """Whether a column of a type compares with a constant without a cast that can fail on a value.

    Args:
        need: what the constant is: ``any`` (nothing is compared), a word of the table, or ``DECIMAL(p,s)``.
        kind: the column's DuckDB type.
    """
    if need == "any" or kind in _FITS.get(need, ()):
        return True
    column, constant = _DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(need)
    if column is None:
        return constant is not None and kind in _NUMBERS
    if need == "double":
        return True
    whole, scale = int(column[1]) - int(column[2]), int(column[2])
    if constant is not None:
        # Both are brought to a type with room for either; where that has too many digits, values can be too large.
        return max(whole, int(constant[1]) - int(constant[2])) + max(scale, int(constant[2])) <= _MOST_DIGITS
    return need == "integer" and max(whole, _BIGINT_DIGITS) + scale <= _MOST_DIGITS


def fitting_hints(hints: ReadHints, columns: Sequence[Column]) -> ReadHints:
    """Hints that fit an entity: what a connector is asked in the end.

    Args:
        hints: as planned.
        columns: all that the read would yield without hints.

    Returns:
        Hints whose columns are all there, spelled as the entity spells them and in its order (``None`` where nothing
        is left to cut, or nothing would be left), and whose filter is there only if its columns have fitting types.
    """
    kept: tuple[str, ...] | None = None
    if hints.columns is not None:
        # More than is needed is no harm, so two columns that differ by case are both kept.
        wanted = {name.lower() for name in hints.columns}
        kept = tuple(column.name for column in columns if column.name.lower() in wanted)
        if not kept or len(kept) == len(columns):
            kept = None
    kinds = {column.name: column.type.upper() for column in columns}
    fits = all(name in kinds and all(_fits(need, kinds[name]) for need in needs) for name, needs in hints.needs.items())
    return ReadHints(kept, hints.predicate if fits else None)
