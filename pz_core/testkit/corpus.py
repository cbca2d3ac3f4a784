"""The hostile corpus: values and names that places and drivers change without a word, as Arrow tables.

A sample holds values of one type that stand or fall together, so that a place which refuses one of them by name can
still prove that it carries the others.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pz_core.values import duckdb_type, quote_identifier, quote_literal

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class Sample(Struct, frozen=True):
    """Values of one type.

    Args:
        name: of the sample, such as ``double_nan``.
        type: DuckDB type of the values.
        values: expressions in DuckDB's SQL, one a row.
        word: the type in words of ``columns:``; ``None`` for a type that no contract can name.
        plain: whether a place that holds the type must carry them all; the others it may refuse by name.
    """

    name: str
    type: str
    values: tuple[str, ...]
    word: str | None
    plain: bool = False

    @property
    def family(self) -> str:
        """The word without its digits (``decimal`` for ``decimal(38,9)``), or ``nested``."""
        return "nested" if self.word is None else self.word.partition("(")[0]

    @property
    def query(self) -> str:
        """A SELECT of the sample: ``id`` (BIGINT, from 1) and ``v``."""
        rows = " UNION ALL ".join(
            f"SELECT CAST({n} AS BIGINT) AS id, CAST({value} AS {self.type}) AS v"
            for n, value in enumerate(self.values, start=1)
        )
        return f"SELECT * FROM ({rows}) ORDER BY id"

    def table(self) -> pa.Table:
        """The sample as an Arrow table, as pz hands batches to a connector."""
        return arrow_table(self.query)


def arrow_table(query: str) -> pa.Table:
    """Rows of a SELECT in DuckDB's SQL as pz would hand them to a connector."""
    with memory_database() as database:
        return database.execute(query).to_arrow_table()


def memory_database() -> duckdb.DuckDBPyConnection:
    """A cursor of a DuckDB of the kit's own: time zone UTC, no extension from outside, types handed on unchanged."""
    return _memory().cursor()


@functools.cache
def _memory() -> duckdb.DuckDBPyConnection:
    import duckdb

    made = duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )
    made.execute("SET GLOBAL TimeZone = 'UTC'")
    made.execute("SET GLOBAL arrow_lossless_conversion = true")
    return made


def _texts(*values: str | None) -> tuple[str, ...]:
    return tuple("NULL" if v is None else _text(v) for v in values)


def _text(value: str) -> str:
    """A text as SQL; the NUL byte, which no literal can hold, through chr()."""
    return " || chr(0) || ".join(quote_literal(part) for part in value.split("\0"))


def _made(name: str, word: str, values: Iterable[str]) -> Sample:
    return Sample(name, duckdb_type(word), tuple(values), word, plain=name == word or name in _PLAIN)


def _nested(name: str, kind: str, *values: str) -> Sample:
    return Sample(name, kind, values, None)


#: Samples that are plain though they do not have a word for a name.
_PLAIN = {
    "decimal_18_3", "varchar_empty_and_null", "varchar_look_alikes", "varchar_syntax", "varchar_newlines",
    "varchar_scripts", "varchar_long",
}  # fmt: skip

#: Scripts, marks and signs that are one character to a reader and several to a machine.
_SCRIPTS = (
    "Grüße, Straße, ﬁ",
    "Ελληνικά и кириллица",
    "العربية עברית",
    "日本語 한국어 中文",
    "ไทย हिन्दी",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇺🇳",
    "e\u0301 ≠ \u00e9",
    "\ufeffa mark of byte order in front",
    "right \u202eto left\u202c and back",
    "line\u2028and paragraph\u2029separators, next\u0085line",
    "\U0010ffff \ufffd",
    "zero\u200bwidth, no\u00a0break",
)
_LOOK_ALIKES = (
    "007",
    "1e5",
    "true",
    "NULL",
    "null",
    "\\N",
    "NaN",
    "2026-01-01",
    "12:30",
    "1_000",
    "0x1F",
    "1,5",
    "=1+1",
    "-",
)
_SYNTAX = (
    "'single' and ''doubled''",
    '"double" and ""doubled""',
    "back\\slash \\n \\\\",
    "comma, semicolon; tab\tpipe|",
    "$1 ? %s %(x)s :x {0} {x} {{ y }} {% z %} ${HOME} $$ $tag$",
    "/* comment */ -- and more",
    '`tick` [bracket] <tag attr="v">&amp;</tag>',
    "'); DROP TABLE t; --",
)

SAMPLES: tuple[Sample, ...] = (
    _made("smallint", "smallint", ("-32768", "32767", "0", "NULL")),
    _made("int", "int", ("-2147483648", "2147483647", "0", "NULL")),
    _made(
        "bigint",
        "bigint",
        (
            "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
            "-9223372036854775808", "9223372036854775807", "NULL",
        ),
    ),
    _made("ubigint", "ubigint", ("0", "9223372036854775808", "18446744073709551615", "NULL")),
    _made("hugeint", "hugeint", ("99999999999999999999999999999999999999", "-18446744073709551616", "NULL")),
    _made(
        "hugeint_39_digits",
        "hugeint",
        ("170141183460469231731687303715884105727", "-170141183460469231731687303715884105728"),
    ),
    _made(
        "double",
        "double",
        (
            "0.1", "1.0/3", "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "123456789.12345679",
            "9007199254740993::BIGINT", "-1.5", "0.0", "NULL",
        ),
    ),
    _made("double_negative_zero", "double", ("'-0.0'::DOUBLE", "0.0", "1.0", "NULL")),
    _made("double_zeros_only", "double", ("'-0.0'::DOUBLE", "0.0")),
    _made("double_nan", "double", ("'nan'::DOUBLE", "1.0", "NULL")),
    _made("double_infinity", "double", ("'inf'::DOUBLE", "'-inf'::DOUBLE", "1.0", "NULL")),
    _made(
        "decimal",
        "decimal",
        ("'12345678901234567890123456789.123456789'", "'-0.000000001'", "'0'", "'1.1'", "NULL"),
    ),
    _made("decimal_18_3", "decimal(18,3)", ("'999999999999999.999'", "'-999999999999999.999'", "'0.100'", "NULL")),
    _made("decimal_38_0", "decimal(38,0)", ("'99999999999999999999999999999999999999'", "'-1'", "NULL")),
    _made(
        "decimal_38_38",
        "decimal(38,38)",
        ("'0.99999999999999999999999999999999999999'", "'-0.00000000000000000000000000000000000001'", "NULL"),
    ),
    _made("varchar_empty_and_null", "varchar", _texts("", None, " ", "  two  ", "a ", " a", "\t")),
    _made("varchar_look_alikes", "varchar", _texts(*_LOOK_ALIKES)),
    _made("varchar_syntax", "varchar", _texts(*_SYNTAX)),
    _made("varchar_newlines", "varchar", _texts("a\nb", "a\r\nb", "a\rb", "\n", "\r\n", "a\n\nb\n", "\v\f", None)),
    _made("varchar_scripts", "varchar", _texts(*_SCRIPTS)),
    _made("varchar_control", "varchar", _texts("\x01\x02\x1b[31m\x7f", "\b", "bell\a")),
    _made("varchar_nul", "varchar", _texts("pre\0post", "\0", "end\0", "calm")),
    _made("varchar_long", "varchar", ("repeat('ab,\"é', 40000)", "repeat('x', 70000)", "''", "NULL")),
    _made("boolean", "boolean", ("true", "false", "NULL")),
    _made("date", "date", ("'1970-01-01'", "'2024-02-29'", "'1582-10-15'", "'0001-01-01'", "'9999-12-31'", "NULL")),
    _made("date_far", "date", ("'0044-03-15 (BC)'", "'10000-01-01'", "'262142-12-31'")),
    _made("date_infinity", "date", ("'infinity'", "'-infinity'", "'2030-01-01'")),
    _made("time", "time", ("'00:00:00'", "'12:30:00.000001'", "'23:59:59.999999'", "NULL")),
    _made("time_24", "time", ("'24:00:00'", "'00:00:00'")),
    _made(
        "timestamp",
        "timestamp",
        (
            "'1970-01-01 00:00:00'", "'2024-03-31 02:30:00.000001'", "'1969-12-31 23:59:59.999999'",
            "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "NULL",
        ),
    ),
    _made("timestamp_far", "timestamp", ("'0044-03-15 (BC) 12:00:00'", "'10000-01-01 00:00:00.000001'")),
    _made("timestamp_infinity", "timestamp", ("'infinity'", "'-infinity'", "'2030-01-01'")),
    _made(
        "timestamptz",
        "timestamptz",
        (
            "'1970-01-01 00:00:00+00'", "'2024-10-27 02:30:00.000001+02'", "'2024-10-27 02:30:00.000001+01'",
            "'1883-11-18 12:03:57-05'", "'0001-01-02 00:00:00+00'", "'9999-12-30 23:59:59.999999+00'", "NULL",
        ),
    ),
    _made("timestamptz_far", "timestamptz", ("'0044-03-15 (BC) 12:00:00+00'", "'10000-01-02 00:00:00.000001+00'")),
    _made("timestamptz_infinity", "timestamptz", ("'infinity'", "'-infinity'", "'2030-01-01 00:00:00+00'")),
    _made(
        "uuid",
        "uuid",
        (
            "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
            "'80000000-0000-0000-0000-000000000001'", "'12345678-9abc-def0-1234-56789abcdef0'", "NULL",
        ),
    ),
    _made(
        "json",
        "json",
        _texts('{"a": [1, null, {"b": ""}], "é": "\\u00e9 \\" \\\\"}', "[]", "{}", '"text"', "true", "null", None),
    ),
    _made(
        "json_numbers",
        "json",
        _texts('{"big": 9007199254740993, "small": 0.1, "exp": 1e400}', "12345678901234567890"),
    ),
    _made(
        "blob",
        "blob",
        (
            "'\\x00\\xFF\\x0A\\x0D\\x27\\x22\\x5C'::BLOB", "''::BLOB", "'plain'::BLOB",
            "repeat('a', 100000)::BLOB", "NULL",
        ),
    ),
    _nested("list", "INTEGER[]", "[1, NULL, 3]", "[]", "NULL"),
    _nested("list_of_text", "VARCHAR[]", "['', NULL, 'NULL', 'a,b', '\"q\"', 'é']", "[]", "NULL"),
    _nested(
        "struct",
        'STRUCT(a BIGINT, "b c" VARCHAR)',
        "{'a': 9007199254740993, 'b c': ''}",
        "{'a': NULL, 'b c': NULL}",
        "NULL",
    ),
    _nested("map", "MAP(VARCHAR, INTEGER)", "map {'k': 1, 'é \"': NULL}", "map {}", "NULL"),
    _nested(
        "deep",
        "STRUCT(x STRUCT(y DECIMAL(18,3)[], z TIMESTAMP)[])[]",
        "[{'x': [{'y': [1.100, NULL], 'z': TIMESTAMP '2024-01-01 00:00:00.000001'}, NULL]}]",
        "[]",
        "NULL",
    ),
)  # fmt: skip

_BY_NAME = {s.name: s for s in SAMPLES}


def together(samples: Iterable[Sample]) -> str:
    """A SELECT of several samples side by side, a column each named after its sample; short ones end in NULL."""
    chosen = tuple(samples)
    rows = range(max((len(s.values) for s in chosen), default=0))
    lines = []
    for n in rows:
        fields = [
            f"CAST({s.values[n] if n < len(s.values) else 'NULL'} AS {s.type}) AS {quote_identifier(s.name)}"
            for s in chosen
        ]
        lines.append(f"SELECT {', '.join(fields)}")
    return " UNION ALL ".join(lines)


#: Names of columns that a place must carry or refuse by a code.
COLUMN_NAMES: tuple[str, ...] = (
    "order", "select", "user", "group", "at", "end", "lambda", "pivot", "offset", "table", "primary",
    "with space", "CamelCase", "ALLCAPS", "1digit", "quote\"d", "it's", "semi;colon", "com,ma", "dot.ted", "per%cent",
    "dollar$", "brace{x}", "back\\slash", "slash/ed", "colon:ed", "naïve", "Straße", "日本語", "🙂", "_id", "rowid",
    "pz_batch", "pz_rank", "pz_target",
)  # fmt: skip

#: A name as long as PostgreSQL can have it, and one that is longer.
LONG_NAMES: tuple[str, ...] = ("c" * 63, "d" * 64, "ü" * 40)

#: Names of entities that a place must carry or refuse by a code; ``{}`` stands for what makes them unique.
ENTITY_NAMES: dict[str, str] = {
    "reserved": "select_{}",
    "mixed case": "MixedCase{}",
    "space": "with space {}",
    "quotes": "qu\"ote'd{}",
    "semicolon": "a;b--{}",
    "percent": "a%20b%{}",
    "unicode": "Übersicht_日本_{}",
    "emoji": "🙂{}",
    "backslash": "a\\b{}",
    "brackets": "a[b]*?{}",
    "hash": "a#b&c={}",
    "dollar": "$a$b${}",
    "braces": "{{}}{}",
    "leading digit": "9lives{}",
    "long": "e" * 60 + "{}",
}


def names() -> tuple[str, ...]:
    """Names of all samples."""
    return tuple(_BY_NAME)


def sample(name: str) -> Sample:
    """A sample by its name.

    Raises:
        KeyError: if there is none.
    """
    return _BY_NAME[name]


def tables() -> dict[str, pa.Table]:
    """All samples as Arrow tables, by name."""
    return {s.name: s.table() for s in SAMPLES}


def named_columns(columns: Iterable[str]) -> str:
    """A SELECT of two rows whose columns have the given names; every value is another."""
    fields = [
        f"{n} + r AS {quote_identifier(name)}" for n, name in ((10 * i, c) for i, c in enumerate(columns, start=1))
    ]
    return f"SELECT CAST(r AS BIGINT) AS id, {', '.join(fields)} FROM range(1, 3) t(r)"


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows of an Arrow table as dictionaries."""
    return list(table.to_pylist())
