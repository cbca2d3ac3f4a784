"""Hints against the columns that an entity turns out to have.

A plan is made offline, so hints are made from a query's text alone. Whoever lands the rows knows the columns: names
that the entity does not have are left out, and a filter is kept only where it means the same and cannot fail there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pz_core.contract.connector import ReadHints
from pz_core.values import Column

_SMALL = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE"}
)
_ZONED = "TIMESTAMP WITH TIME ZONE"
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*\d+\)")
#: A decimal of more digits may have to be cut when it is compared with a number of another scale.
_MOST_DIGITS = 18


def _small(kind: str) -> bool:
    match = _DECIMAL.fullmatch(kind)
    return kind in _SMALL or (match is not None and int(match[1]) <= _MOST_DIGITS)


def _one_of(*kinds: str) -> Callable[[str], bool]:
    return frozenset(kinds).__contains__


#: What a constant is -> the column types that it compares with, without a cast of the column that can fail.
_FITS: dict[str, Callable[[str], bool]] = {
    "any": lambda kind: True,
    "integer": lambda kind: _small(kind) or kind == "HUGEINT",
    "decimal": _small,
    "double": lambda kind: _small(kind) or kind == "HUGEINT",
    "text": _one_of("VARCHAR"),
    "date text": _one_of("VARCHAR", "DATE", "TIMESTAMP", _ZONED),
    "timestamp text": _one_of("VARCHAR", "TIMESTAMP", _ZONED),
    "boolean": _one_of("BOOLEAN"),
    "date": _one_of("DATE", "TIMESTAMP", _ZONED),
    "timestamp": _one_of("TIMESTAMP", _ZONED),
    "timestamptz": _one_of(_ZONED),
    "time": _one_of("TIME"),
}


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
    fits = all(
        name in kinds and all(need in _FITS and _FITS[need](kinds[name]) for need in needs)
        for name, needs in hints.needs.items()
    )
    return ReadHints(kept, hints.predicate if fits else None)
