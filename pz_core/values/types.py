"""The one table of types: the contract's word, DuckDB's name, and what goes exactly into what.

Sources: DECISIONS 7 (type words), the DuckDB 1.5 documentation of data types.
"""

from __future__ import annotations

import re
from typing import NewType

from msgspec import Struct

TypeWord = NewType("TypeWord", str)

#: Contract word -> DuckDB type. ``decimal(p,s)`` is handled beside it.
CONTRACT_TYPES: dict[str, str] = {
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "ubigint": "UBIGINT",
    "hugeint": "HUGEINT",
    "double": "DOUBLE",
    "decimal": "DECIMAL(38,9)",
    "varchar": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "uuid": "UUID",
    "json": "JSON",
    "blob": "BLOB",
}

#: Words that a cursor column may have (the seed's five and ``timestamptz``).
CURSOR_TYPES: tuple[str, ...] = ("int", "bigint", "decimal", "date", "timestamp", "timestamptz")

_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
_DUCKDB_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_FIXED_LIST = re.compile(r"\[\d+\]$")

#: Bits that an integer type spends on the value (without the sign) and whether it has a sign.
_INTEGERS: dict[str, tuple[int, bool]] = {
    "TINYINT": (7, True),
    "SMALLINT": (15, True),
    "INTEGER": (31, True),
    "BIGINT": (63, True),
    "HUGEINT": (127, True),
    "UTINYINT": (8, False),
    "USMALLINT": (16, False),
    "UINTEGER": (32, False),
    "UBIGINT": (64, False),
    "UHUGEINT": (128, False),
}
#: Whole digits that any value of an integer type fits into.
_INTEGER_DIGITS: dict[str, int] = {
    "TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 39,
    "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20, "UHUGEINT": 39,
}  # fmt: skip
_DOUBLE_BITS = 53
_FLOAT_BITS = 24


class Column(Struct, frozen=True):
    """A column: its name as the place spells it, and its DuckDB type."""

    name: str
    type: str
    nullable: bool = True


def is_type_word(word: str) -> bool:
    """Whether ``columns:`` may use this word."""
    if word in CONTRACT_TYPES:
        return True
    match = _DECIMAL.fullmatch(word)
    return bool(match) and 1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1]) if match else False


def duckdb_type(word: str) -> str:
    """The DuckDB type of a contract's word.

    Raises:
        KeyError: if ``columns:`` does not know the word.
    """
    match = _DECIMAL.fullmatch(word)
    if match:
        return f"DECIMAL({int(match[1])},{int(match[2])})"
    return CONTRACT_TYPES[word]


def holds_exactly(target: str, source: str) -> bool:
    """Whether every value of DuckDB type ``source`` is a value of ``target``, unchanged.

    ``INTEGER`` into ``BIGINT`` is; ``BIGINT`` into ``DOUBLE`` is not; nothing but text and labels go into text. A
    target may also be ``NUMERIC``, which DuckDB has not: a number of any length, as some databases keep it.
    """
    if source.startswith("ENUM(") and target.upper() == "VARCHAR":
        return True
    target, source = target.upper(), source.upper()
    if target == source or _FIXED_LIST.sub("[]", source) == target:
        return True
    if target.endswith("[]") and source.endswith("[]"):
        return holds_exactly(target[:-2], source[:-2])
    if target == "NUMERIC":
        return source in _INTEGERS or bool(_DUCKDB_DECIMAL.fullmatch(source))
    if source in _INTEGERS:
        return _holds_integer(target, source)
    decimal = _DUCKDB_DECIMAL.fullmatch(source)
    if decimal:
        wider = _DUCKDB_DECIMAL.fullmatch(target)
        if not wider:
            return False
        width, scale = int(decimal[1]), int(decimal[2])
        wide, wide_scale = int(wider[1]), int(wider[2])
        return wide_scale >= scale and wide - wide_scale >= width - scale
    return (source, target) in {
        ("FLOAT", "DOUBLE"),
        ("DATE", "TIMESTAMP"),
        ("TIMESTAMP_S", "TIMESTAMP"),
        ("TIMESTAMP_MS", "TIMESTAMP"),
    }


def _holds_integer(target: str, source: str) -> bool:
    bits, signed = _INTEGERS[source]
    if target in _INTEGERS:
        wide, wide_signed = _INTEGERS[target]
        return wide >= bits and (wide_signed or not signed)
    if target == "DOUBLE":
        return bits <= _DOUBLE_BITS
    if target == "FLOAT":
        return bits <= _FLOAT_BITS
    decimal = _DUCKDB_DECIMAL.fullmatch(target)
    return bool(decimal) and int(decimal[1]) - int(decimal[2]) >= _INTEGER_DIGITS[source] if decimal else False
