"""The check ``accepted_values``."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from pz_core.checks.body import BodyReader, column_sql, from_sql, mapping_schema
from pz_core.contract.check import CheckDefinition, CheckQuery
from pz_core.values import Scalar, Value, quote_identifier, quote_literal

_INTEGERS = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT",
    "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "BIGNUM",
)  # fmt: skip
_ZONED = "TIMESTAMP WITH TIME ZONE"


class AcceptedValues:
    """Counts the rows whose value is not in a list; NULL passes.

    A number of the list equals a number of the column, exactly; ``true`` and ``false`` equal booleans only; a text
    equals a text, or the written form of anything else. In a text column, numbers and booleans of the list are taken
    as written.
    """

    name: ClassVar[str] = "accepted_values"
    body_schema: ClassVar[Mapping[str, Any]] = mapping_schema(
        ["values"],
        column=True,
        values={"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1},
    )

    def define(self, body: Value) -> CheckDefinition:
        """Read ``{column, values}``.

        Raises:
            CheckFault: if there is not exactly one column, or ``values`` is no list of texts, numbers and booleans.
        """
        reader = BodyReader(body, ("values",), columns=True, needs="a mapping with 'column' and 'values'")
        columns = reader.columns(one=True)
        values = reader.get("values")
        if values is None:
            reader.fault("needs option 'values', a list of the accepted values")
        elif not isinstance(values, Sequence) or isinstance(values, str):
            reader.fault("option 'values' must be a list")
        elif not values:
            reader.fault("option 'values' is empty; it needs at least one value")
        elif not all(isinstance(v, (str, int, float, bool)) for v in values):
            reader.fault("option 'values' may hold texts, numbers, true and false, nothing nested or empty")
        elif any(isinstance(v, float) and not math.isfinite(v) for v in values):
            reader.fault("option 'values' holds a number that is not finite")
        reader.done()
        return CheckDefinition(self.name, columns, {"values": values if values is not None else ()})

    def query(self, definition: CheckDefinition, relation: str, now: datetime) -> CheckQuery:
        """Rows with another value, shown as distinct values.

        Values are judged once each, after grouping: a list is for columns of few distinct values.
        """
        column = column_sql(definition.columns[0])
        listed = definition.options["values"]
        values = [v for v in listed if isinstance(v, (str, int, float, bool))] if isinstance(listed, Sequence) else []
        groups = (
            f"SELECT {column} AS value, count(*) AS times, CAST({column} AS VARCHAR) AS written, "
            f"typeof({column}) AS kind "
            f"{from_sql(relation)} WHERE {column} IS NOT NULL GROUP BY {column}"
        )
        others = f"FROM ({groups}) AS seen WHERE NOT coalesce({_accepted(values)}, FALSE)"
        shown = quote_identifier(definition.columns[0])
        return CheckQuery(
            f"SELECT CAST(coalesce(sum(times), 0) AS BIGINT) {others}",
            f"SELECT value AS {shown} {others} ORDER BY written LIMIT 5",
        )


def _accepted(values: Sequence[Scalar]) -> str:
    """Whether ``written``, a value's text, stands for one of the list, as its ``kind`` requires.

    The column's type is known only where the query runs, so every kind has a branch; all work on text, which is exact
    and always binds.
    """
    texts = [v for v in values if isinstance(v, str)]
    booleans = [_boolean(v) for v in values if isinstance(v, bool)]
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    plain = [_plain(v) for v in numbers]
    as_text = _in("written", map(quote_literal, texts))
    branches = (
        (
            f"kind IN ({', '.join(map(quote_literal, _INTEGERS))})",
            _in("written", map(quote_literal, plain)),
        ),
        (
            "starts_with(kind, 'DECIMAL')",
            # The text of a decimal carries its scale: 1.50 and 1.5 are one number.
            _in(
                "CASE WHEN contains(written, '.') THEN rtrim(rtrim(written, '0'), '.') ELSE written END",
                map(quote_literal, plain),
            ),
        ),
        (
            "kind = 'DOUBLE'",
            _in("TRY_CAST(written AS DOUBLE)", _cast([_plain(n) for n in numbers if _in_double(n)], "DOUBLE")),
        ),
        (
            "kind = 'FLOAT'",
            _in("TRY_CAST(written AS FLOAT)", _cast([_plain(n) for n in numbers if _in_float(n)], "FLOAT")),
        ),
        ("kind = 'BOOLEAN'", _in("written", map(quote_literal, booleans))),
        (f"kind = '{_ZONED}'", _in(f"TRY_CAST(written AS {_ZONED})", _cast(texts, _ZONED))),
        (
            "kind = 'DATE' OR starts_with(kind, 'TIMESTAMP')",
            _in("TRY_CAST(written AS TIMESTAMP)", _cast(texts, "TIMESTAMP")),
        ),
        ("kind = 'TIME'", _in("TRY_CAST(written AS TIME)", _cast(texts, "TIME"))),
        ("kind = 'UUID'", _in("TRY_CAST(written AS UUID)", _cast(texts, "UUID"))),
    )
    cases = " ".join(f"WHEN {when} THEN {as_text} OR coalesce({then}, FALSE)" for when, then in branches)
    rest = _in("written", map(quote_literal, [*texts, *booleans, *(str(n) for n in numbers)]))
    return f"CASE {cases} ELSE {rest} END"


def _in(subject: str, literals: Iterable[str]) -> str:
    listed = ", ".join(literals)
    return f"({subject}) IN ({listed})" if listed else "FALSE"


def _cast(texts: Iterable[str], kind: str) -> list[str]:
    return [f"TRY_CAST({quote_literal(t)} AS {kind})" for t in texts]


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _plain(number: int | float) -> str:
    """A number without exponent and without needless zeros: ``2.50`` and ``25e-1`` are ``2.5``."""
    if isinstance(number, int):
        return str(number)
    text = format(Decimal(repr(number)), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _in_double(number: int | float) -> bool:
    """An integer must be a DOUBLE exactly, or 2**53 + 1 would accept its neighbour."""
    if isinstance(number, float):
        return True
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _in_float(number: int | float) -> bool:
    if isinstance(number, float):
        return True  # 0.1 means the FLOAT nearest to it
    try:
        return int(struct.unpack("f", struct.pack("f", number))[0]) == number
    except (OverflowError, struct.error):
        return False
