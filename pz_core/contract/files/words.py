"""Text to typed values in SQL: what counts as a value of a type, and how the text becomes one.

Two grammars. A type that was *found* is strict: only texts in their plain form count, so ``007`` stays text and
nothing is lost. A type that was *declared* takes what names exactly one value of it: ``007`` is seven, ``7.5`` is no
``bigint``. Every test is true for NULL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from pz_core.contract.files.formats import null_texts
from pz_core.values import Value, duckdb_type, quote_literal

#: Types that reading finds by itself, tried in this order.
Kind = Literal[
    "boolean", "bigint", "hugeint", "double", "decimal", "date", "timestamp", "timestamptz", "time", "varchar"
]
KINDS: tuple[Kind, ...] = (
    "boolean", "bigint", "hugeint", "double", "decimal", "date", "timestamp", "timestamptz", "time",
)  # fmt: skip

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
_ZONE = r"(Z|[+-][0-9]{2}(:[0-9]{2})?)"
_PLAIN_NUMBER = r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NOT_FINITE = "nan|[+-]?inf(inity)?"
_TRUE = "true|t|1|yes|y"
_FALSE = "false|f|0|no|n"
#: Any decimal text of at most this many characters survives a double and comes back digit for digit.
_DOUBLE_DIGITS = 15


class TextRules(Struct, frozen=True):
    """How numbers and NULL are spelled in a file."""

    decimal: str = "."
    thousands: str = ""
    nulls: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Value]) -> TextRules:
        """From read options."""
        return cls(str(options.get("decimal", ".")), str(options.get("thousands", "")), null_texts(options))

    @property
    def plain(self) -> bool:
        """Whether texts can go to DuckDB's own parser as they stand."""
        return self == TextRules()

    def text(self, column: str) -> str:
        """The text of a column, NULL where it spells NULL."""
        if not self.nulls:
            return column
        listed = ", ".join(quote_literal(n) for n in self.nulls)
        return f"(CASE WHEN list_contains([{listed}], {column}) THEN NULL ELSE {column} END)"

    def number(self, text: str) -> str:
        """The text of a number in the usual spelling."""
        made = text
        if self.thousands:
            made = f"replace({made}, {quote_literal(self.thousands)}, '')"
        if self.decimal != ".":
            made = f"replace({made}, {quote_literal(self.decimal)}, '.')"
        return made

    def spelled(self, text: str) -> str | None:
        """A test that the text of a number obeys these rules, ``None`` if there is nothing to test."""
        if self.decimal == "." and not self.thousands:
            return None
        mark = re.escape(self.decimal)
        whole = "[0-9]+"
        if self.thousands:
            whole = f"([0-9]{{1,3}}({re.escape(self.thousands)}[0-9]{{3}})+|[0-9]+)"
        shape = f"[+-]?({whole}({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?"
        return f"({_matches(text, shape)} OR {_words(text, _NOT_FINITE)})"


def _matches(text: str, pattern: str) -> str:
    return f"regexp_full_match({text}, {quote_literal(pattern)})"


def _words(text: str, pattern: str) -> str:
    """Whether a text is one of some words, in any case. An ``IN`` of more than a few becomes a join in DuckDB."""
    return _matches(f"lower({text})", pattern)


def _both(*tests: str | None) -> str:
    return "(" + " AND ".join(t for t in tests if t) + ")"


def _timestamp_shape(text: str, pattern: str) -> str:
    """The shape of a timestamp; the usual one is seen without a regular expression, by writing its value back."""
    usual = f"strlen({text}) = 19 AND coalesce(CAST(TRY_CAST({text} AS TIMESTAMP) AS VARCHAR) = {text}, false)"
    return _unless(usual, _matches(text, pattern))


def _unless(easy: str, hard: str) -> str:
    """True where the easy test holds, else the hard one, which DuckDB evaluates only for the rows that are left."""
    return f"(CASE WHEN {easy} THEN true ELSE {hard} END)"


def _casts(text: str, kind: str) -> str:
    return f"TRY_CAST({text} AS {kind}) IS NOT NULL"


# --- found types -----------------------------------------------------------------------------------------------------


def found_test(kind: Kind, column: str, rules: TextRules) -> str:
    """A test that a text is a value of a found type in its plain form."""
    text = rules.text(column)
    return _unless(f"{text} IS NULL", _found_test(kind, text, rules))


def _found_test(kind: Kind, text: str, rules: TextRules) -> str:
    if kind in ("bigint", "hugeint", "double", "decimal"):
        return _both(rules.spelled(text), _found_number(kind, rules.number(text)))
    if kind == "boolean":
        return _words(text, "true|false")
    if kind == "date":
        return _both(_matches(text, _DAY), _casts(text, "DATE"))
    if kind == "timestamp":
        return _both(_timestamp_shape(text, rf"{_DAY}([ T]{_CLOCK})?"), _casts(text, "TIMESTAMP"))
    if kind == "timestamptz":
        return _both(_matches(text, rf"{_DAY}[ T]{_CLOCK}{_ZONE}"), _casts(text, "TIMESTAMPTZ"))
    if kind == "time":
        return _both(_matches(text, _CLOCK), _casts(text, "TIME"))
    return "true"


def _found_number(kind: Kind, number: str) -> str:
    if kind == "bigint":
        short = _matches(number, "0|-?[1-9][0-9]{0,17}")
        return _unless(short, f"coalesce(CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR) = {number}, false)")
    if kind == "hugeint":
        return _matches(number, "0|-?[1-9][0-9]{0,37}")
    if kind == "double":
        value = f"TRY_CAST({number} AS DOUBLE)"
        short = _matches(number, r"-?(0|[1-9][0-9]{0,7})(\.[0-9]{1,6})?")
        digits = f"length(regexp_replace({number}, '[eE].*$', '')) <= {_DOUBLE_DIGITS}"
        exact = f"({digits} OR coalesce(CAST({value} AS VARCHAR) = {number}, false))"
        finite = f"coalesce(isfinite({value}), false)"
        plain = _both(_matches(number, _PLAIN_NUMBER), exact, finite, _no_underflow(number, value))
        return _unless(short, f"({plain} OR {_words(number, _NOT_FINITE)})")
    return _matches(number, r"-?(0|[1-9][0-9]{0,37})(\.[0-9]{1,37})?")


def _no_underflow(number: str, value: str) -> str:
    """A number with a digit other than zero must not become zero."""
    return f"({value} <> 0 OR NOT regexp_matches(regexp_replace({number}, '[eE].*$', ''), '[1-9]'))"


#: Kinds by the type that a text of theirs must cast to, in the order of :func:`cast_tests`.
CAST_KINDS: tuple[tuple[Kind, ...], ...] = (
    ("boolean",), ("bigint", "hugeint", "double", "decimal"), ("date", "timestamp"), ("timestamptz",), ("time",),
)  # fmt: skip


def cast_tests(column: str, rules: TextRules) -> tuple[str, ...]:
    """Tests that are quick and needful, not sufficient: whether a text can be of any of the kinds of a group."""
    text = rules.text(column)
    types = {"BOOLEAN": text, "DOUBLE": rules.number(text), "TIMESTAMP": text, "TIMESTAMPTZ": text, "TIME": text}
    return tuple(f"({text} IS NULL OR TRY_CAST({value} AS {kind}) IS NOT NULL)" for kind, value in types.items())


def found_extras(column: str, rules: TextRules) -> tuple[str, str, str, str]:
    """Aggregates that settle a found type: texts, finite numbers, and the most whole and fraction digits."""
    text = rules.text(column)
    number = rules.number(text)
    finite = f"count({text}) FILTER (NOT {_words(text, _NOT_FINITE)})"
    whole = rf"max(length(regexp_extract({number}, '^-?([0-9]*)', 1)))"
    fraction = rf"max(length(regexp_extract({number}, '\.([0-9]*)$', 1)))"
    return f"count({text})", finite, whole, fraction


def found_digits_test(type_name: str, column: str, rules: TextRules) -> str:
    """A test that a decimal in its plain form has no more digits, before and behind the point, than its type."""
    width, scale = _width_and_scale(type_name)
    text = rules.text(column)
    fraction = rf"(\.[0-9]{{1,{scale}}})?" if scale else ""
    digits = _matches(rules.number(text), rf"-?[0-9]{{1,{width - scale}}}{fraction}") if width > scale else "false"
    return _unless(f"{text} IS NULL", digits)


def _width_and_scale(kind: str) -> tuple[int, int]:
    width, scale = kind[len("DECIMAL(") : -1].split(",")
    return int(width), int(scale)


def found_type(kind: Kind, scale: int = 0) -> str:
    """The DuckDB type of a found kind."""
    return f"DECIMAL(38,{scale})" if kind == "decimal" else duckdb_type(kind)


# --- declared types --------------------------------------------------------------------------------------------------

_INTEGERS = ("smallint", "int", "bigint", "ubigint", "hugeint")
#: So many digits fit whatever they are.
_SAFE_DIGITS = {"smallint": 4, "int": 9, "bigint": 18, "ubigint": 19, "hugeint": 38}


def declared_test(word: str, column: str, rules: TextRules) -> str:
    """A test that a text names exactly one value of a declared type."""
    text = rules.text(column)
    return _unless(f"{text} IS NULL", _declared_test(word, text, rules))


def _declared_test(word: str, text: str, rules: TextRules) -> str:
    kind = duckdb_type(word)
    if word == "varchar":
        return "true"
    if word in _INTEGERS:
        number = rules.number(text)
        hard = _both(_matches(number, r"[+-]?[0-9]+(\.0*)?"), _casts(_whole(number), kind))
        return _both(rules.spelled(text), _unless(_matches(number, f"[0-9]{{1,{_SAFE_DIGITS[word]}}}"), hard))
    if word == "double":
        return _both(rules.spelled(text), _declared_double(rules.number(text)))
    if word.startswith("decimal"):
        return _both(rules.spelled(text), _declared_decimal(rules.number(text), kind))
    if word == "boolean":
        return _words(text, f"{_TRUE}|{_FALSE}")
    if word == "date":
        return _both(f"({_matches(text, _DAY)} OR {_words(text, '-?infinity')})", _casts(text, kind))
    if word == "timestamp":
        shape = rf"{_DAY}([ T]{_CLOCK}(Z|[+-]00(:00)?)?)?|-?infinity"
        return _both(_timestamp_shape(text, shape), _casts(text, kind))
    if word == "timestamptz":
        shape = rf"{_DAY}([ T]{_CLOCK}{_ZONE}?)?|-?infinity"
        return _both(_matches(text, shape), _casts(text, kind))
    if word == "time":
        return _both(_matches(text, _CLOCK), _casts(text, kind))
    if word == "json":
        return f"json_valid({text})"
    return f"({_casts(text, kind)})"


def _whole(number: str) -> str:
    return f"regexp_replace({number}, '\\.0*$', '')"


def _declared_double(number: str) -> str:
    value = f"TRY_CAST({number} AS DOUBLE)"
    shape = _matches(number, r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
    digits = f"length(regexp_replace(regexp_replace({number}, '[eE].*$', ''), '^[+-]?0*|\\.', '', 'g')) <= 17"
    back = f"coalesce(TRY_CAST({value} AS HUGEINT) = TRY_CAST({number} AS HUGEINT), false)"
    whole = f"(NOT {_matches(number, '[+-]?[0-9]+')} OR length({number}) <= {_DOUBLE_DIGITS} OR {back})"
    finite = f"coalesce(isfinite({value}), false)"
    plain = _both(shape, finite, digits, whole, _no_underflow(number, value))
    easy = _matches(number, r"-?[0-9]{1,8}(\.[0-9]{1,6})?")
    return _unless(easy, f"({plain} OR {_words(number, _NOT_FINITE)})")


def _declared_decimal(number: str, kind: str) -> str:
    width, scale = _width_and_scale(kind)
    plain = _matches(number, rf"[+-]?([0-9]+(\.[0-9]{{0,{scale}}}0*)?|\.[0-9]{{1,{max(scale, 1)}}}0*)")
    short = _matches(number, r"[+-]?[0-9]{1,9}(\.[0-9]{1,6})?[eE][+-]?[0-9]{1,2}")
    same = f"coalesce(CAST(TRY_CAST({number} AS {kind}) AS DOUBLE) = TRY_CAST({number} AS DOUBLE), false)"
    hard = f"(({plain} OR ({short} AND {same})) AND {_casts(number, kind)})"
    if width == scale:
        return hard
    fraction = rf"(\.[0-9]{{1,{scale}}})?" if scale else ""
    return _unless(_matches(number, rf"-?[0-9]{{1,{width - scale}}}{fraction}"), hard)


def cast(kind: str, word: str, column: str, rules: TextRules) -> str:
    """The typed value of a text that passed its test.

    Args:
        kind: the DuckDB type.
        word: the declared word or the found kind.
        column: SQL of the text.
        rules: of the file.
    """
    text = rules.text(column)
    if word == "varchar":
        return text
    if word in _INTEGERS:
        return f"CAST({_whole(rules.number(text))} AS {kind})"
    if word == "double" or word.startswith("decimal"):
        return f"CAST({rules.number(text)} AS {kind})"
    if word == "boolean":
        return _words(text, _TRUE)
    return f"CAST({text} AS {kind})"


def naive_test(column: str, rules: TextRules) -> str:
    """A test that the text of an instant has no zone."""
    return f"NOT regexp_matches({rules.text(column)}, '(Z|:[0-9.]+[+-][0-9:]+|infinity)$')"
