"""The order of cursor values in canonical text, for every room that compares them."""

from __future__ import annotations

from decimal import Decimal

#: Cursor types that count in days or instants.
CALENDAR_TYPES: tuple[str, ...] = ("date", "timestamp", "timestamptz")
#: Cursor types that count in numbers.
NUMERIC_TYPES: tuple[str, ...] = ("int", "bigint", "decimal")


def later(type_word: str, value: str, than: str) -> bool:
    """Whether one canonical value lies strictly above another of the same type."""
    if type_word in NUMERIC_TYPES:
        return Decimal(value) > Decimal(than)
    return value > than


def same_family(one: str, other: str) -> bool:
    """Whether values of two cursor types can stand in one order: ``int`` and ``bigint`` are one family."""
    return one == other or {one, other} == {"int", "bigint"}
