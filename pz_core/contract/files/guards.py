"""Casts under guard: the one statement that lands text also proves it, and stops where a text is no value of its type.

A guard asks cheap questions first. What they cannot settle goes to the full test of :mod:`.words`, which DuckDB then
evaluates for those rows only; where that fails too the statement stops with the mark of
:func:`~pz_core.contract.refusals.trip`, and whoever ran it settles the types over all rows.

Measured with DuckDB 1.5.5: writing a value back as text and comparing costs less than half of a regular expression.
Doubles are the exception: their shortest text is dear, so their spelling is looked at piece by piece. A filter over all
columns is a fifth cheaper than a CASE in each, which copies every value; DuckDB never moves a filter that can fail.
"""

from __future__ import annotations

from msgspec import Struct

from pz_core.contract.files.words import Kind, TextRules, cast, declared_test, found_digits_test, found_test, naive_test
from pz_core.contract.refusals import trip
from pz_core.values import duckdb_type, quote_identifier

_INTEGERS = frozenset({"SMALLINT", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT"})
#: Four-digit years, which DuckDB writes as ``2026-01-31 10:00:00[.123456]``; infinities and later years lie outside.
_FIRST, _PAST = "0001-01-01", "10000-01-01"
_DATED = frozenset({"DATE", "TIMESTAMP"})
#: Types whose cheap cast gives the value of every text that passes the full test.
_FILTERED = frozenset({"SMALLINT", "INTEGER", "BIGINT", "DATE", "TIMESTAMP"})
#: So many characters of a plain number hold no more digits than a double keeps.
_DOUBLE_CHARACTERS = 15
#: Decimals of at most this scale are usually written with all their digits.
_MONEY_SCALE = 4


class GuardedField(Struct, frozen=True):
    """A column of a guarded SELECT, in two levels, so that a text is cast once for guard and value.

    Args:
        inner: what the inner SELECT yields, each with its alias.
        value: SQL of the value over these aliases; it guards itself where there is no filter.
        easy: a cheap test for the filter, true or false.
        full: the test of rows that fail the cheap one of any column, true or false.
    """

    inner: tuple[str, ...]
    value: str
    easy: str | None = None
    full: str | None = None


def found_guard(kind: Kind | None, type_name: str, column: str, at: int, rules: TextRules) -> GuardedField:
    """A column whose kind a sample proposed.

    Args:
        kind: proposed; ``None`` where the sample holds no value, so that none may follow.
        type_name: DuckDB type of the kind.
        column: SQL of the text.
        at: place of the column, for the aliases.
        rules: how numbers and NULL are spelled.
    """
    if kind == "varchar":
        return GuardedField((f"{column} AS t{at}",), rules.text(f"t{at}"))
    if kind is None:
        text = rules.text(f"t{at}")
        return GuardedField((f"{column} AS t{at}",), f"CASE WHEN {text} IS NULL THEN CAST(NULL AS VARCHAR) {_else()}")
    test = found_test(kind, f"t{at}", rules)
    if kind == "decimal":
        test = f"({test} AND {found_digits_test(type_name, f't{at}', rules)})"
    return _guard(type_name, column, at, rules, test, kind)


def declared_guard(word: str, column: str, at: int, rules: TextRules, zoned: bool | None = None) -> GuardedField:
    """A column of a contract.

    Args:
        word: the declared type word.
        column: SQL of the text.
        at: place of the column, for the aliases.
        rules: how numbers and NULL are spelled.
        zoned: for ``timestamptz``: whether every text must have a zone (or must have none).
    """
    if word == "varchar":
        return GuardedField((f"{column} AS t{at}",), rules.text(f"t{at}"))
    test = declared_test(word, f"t{at}", rules)
    if zoned is not None:
        naive = naive_test(f"t{at}", rules)
        test = f"({test} AND ({rules.text(f't{at}')} IS NULL OR {'NOT ' if zoned else ''}({naive})))"
    return _guard(duckdb_type(word), column, at, rules, test, word)


def _guard(type_name: str, column: str, at: int, rules: TextRules, test: str, word: str) -> GuardedField:
    text, value = f"t{at}", f"v{at}"
    whole = cast(type_name, word, text, rules)
    easy = _easy(type_name, text, value) if rules.decimal == "." and not rules.thousands else None
    if easy is None:
        return GuardedField((f"{column} AS {text}",), f"CASE WHEN {test} THEN {whole} {_else()}")
    tests, made = easy
    inner = (f"{column} AS {text}", f"{made.format(text=column)} AS {value}")
    if not rules.nulls and type_name in _FILTERED:
        # Where the full test holds, the cheap cast must also be the value; for these types it nearly always is.
        return GuardedField(
            inner,
            value,
            f"coalesce({tests[0]}, {text} IS NULL)",
            f"CASE WHEN {tests[0]} THEN true WHEN {test} THEN {value} IS NOT DISTINCT FROM {whole} ELSE false END",
        )
    # A listed text for NULL may be a number, as in `null_text: '-99'`, so it comes before all else.
    listed = f"WHEN {rules.text(text)} IS NULL THEN NULL "
    first, last = (listed, "") if rules.nulls else ("", listed)
    return GuardedField(
        inner,
        f"CASE {first}{''.join(f'WHEN {t} THEN {value} ' for t in tests)}{last}WHEN {test} THEN {whole} {_else()}",
    )


def _easy(type_name: str, text: str, value: str) -> tuple[tuple[str, ...], str] | None:
    """Tests that settle most rows, and the cast (of ``{text}``) whose value they judge; ``None`` if there is none.

    Each is false or NULL where the cast gave NULL, and true only for texts in their plain form.
    """
    cast_text = f"TRY_CAST({{text}} AS {type_name})"
    same = f"CAST({value} AS VARCHAR) = {text}"
    if type_name in _INTEGERS:
        # A type is found for at most 38 digits, though a hugeint holds some numbers of 39.
        return (f"strlen({text}) <= 38 AND {same}" if type_name == "HUGEINT" else same,), cast_text
    if type_name in _DATED:
        years = f"{value} >= {type_name} '{_FIRST}' AND {value} < {type_name} '{_PAST}'"
        return (f"{years} AND {same}",), cast_text
    if type_name == "DOUBLE":
        return _easy_double(text, value), "TRY_CAST({text} || 'e0' AS DOUBLE)"
    if type_name == "BOOLEAN":
        return (f"({text} = 'true' OR {text} = 'false')", f"({text} = 'True' OR {text} = 'False')"), cast_text
    if type_name.startswith("DECIMAL"):
        scale = int(type_name[:-1].rsplit(",", 1)[1])
        return ((same,), cast_text) if scale <= _MONEY_SCALE else None
    return None


def _easy_double(text: str, value: str) -> tuple[str, ...]:
    """With ``e0`` behind it no number has an exponent of its own, white space at its end, or is an infinity or NaN.

    So what is left to see is white space, a plus or needless zeros in front, and underscores between digits.
    """
    short = f"{value} IS NOT NULL AND strlen({text}) <= {_DOUBLE_CHARACTERS} AND NOT contains({text}, '_')"
    above = f"({text} >= '1' OR ({text} >= '0' AND {text} < '0/'))"
    below = f"(({text} >= '-1' AND {text} < '-:') OR ({text} >= '-0' AND {text} < '-0/'))"
    return f"{short} AND {above}", f"{short} AND {below}"


def _else() -> str:
    return f"ELSE {trip()} END"


def guarded_select(fields: list[tuple[str, GuardedField]], scan: str) -> str:
    """The SELECT over one scan whose every field is text.

    Args:
        fields: name and guard of every column.
        scan: the table function.
    """
    inner = ", ".join(part for _, field in fields for part in field.inner)
    outer = ", ".join(f"{field.value} AS {quote_identifier(name)}" for name, field in fields)
    made = f"SELECT {outer} FROM (SELECT {inner} FROM {scan}) AS pz_text"
    easy = [field.easy for _, field in fields if field.easy is not None]
    full = [field.full for _, field in fields if field.full is not None]
    if not easy:
        return made
    whole_row = " AND ".join(f"({test})" for test in full)
    return f"{made} WHERE CASE WHEN {' AND '.join(easy)} THEN true WHEN {whole_row} THEN true {_else()}"
