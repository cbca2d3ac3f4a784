"""A filter that fits a column's type never fails on a value of it, however extreme: DuckDB is the judge."""

from __future__ import annotations

import duckdb
import pytest

from pz_core.contract.hints import _fits

CONSTANTS = {
    "integer": ("5", "-1", "9223372036854775807", "-9223372036854775808"),
    "double": ("1e0", "-1e300"),
    "text": ("'x'",),
    "date text": ("'2026-01-01'", "'0001-01-01'", "'9999-12-31'"),
    "timestamp text": ("'2026-01-01 00:00:00'", "'2026-01-01T00:00:00.000001'"),
    "boolean": ("true",),
    "date": ("DATE '2026-01-01'",),
    "timestamp": ("TIMESTAMP '2026-01-01'",),
    "timestamptz": ("TIMESTAMPTZ '2026-01-01'",),
    "time": ("TIME '10:00'",),
    "DECIMAL(3,2)": ("1.50",),
    "DECIMAL(18,18)": ("0.123456789012345678",),
    "DECIMAL(17,1)": ("1234567890123456.7",),
}
VALUES = {
    "TINYINT": ("-128", "127"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807"),
    "UBIGINT": ("18446744073709551615",),
    "HUGEINT": ("-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"),
    "UHUGEINT": ("340282366920938463463374607431768211455",),
    "FLOAT": ("'nan'", "'-inf'", "3.4e38"),
    "DOUBLE": ("'nan'", "'inf'", "1e308"),
    "DECIMAL(38,0)": ("9" * 38, "-" + "9" * 38),
    "DECIMAL(38,9)": ("9" * 29 + "." + "9" * 9,),
    "DECIMAL(38,20)": ("9" * 18 + "." + "9" * 20,),
    "DECIMAL(18,2)": ("9" * 16 + ".99",),
    "DATE": ("'infinity'", "'5000000-01-01'"),
    "TIMESTAMP": ("'-infinity'", "'294000-01-01'"),
    "TIMESTAMP WITH TIME ZONE": ("'infinity'", "'294000-01-01'"),
    "TIMESTAMP_NS": ("'2026-01-01'",),
    "TIME": ("'23:59:59.999999'",),
    "BOOLEAN": ("true",),
    "VARCHAR": ("'abc'", "''"),
    "ENUM('b', 'a')": ("'a'",),
    "JSON": ("'{}'",),
    "INTEGER[]": ("[1]",),
}
SHAPES = ("v < {0}", "{0} <> v", "v IN ({0}, {0})", "v BETWEEN {0} AND {0}", "v IS DISTINCT FROM {0}")


@pytest.mark.parametrize("kind", VALUES)
def test_a_fitting_filter_never_fails(kind: str) -> None:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        con.execute(f"CREATE TABLE t (v {kind})")
        for value in VALUES[kind]:
            con.execute(f"INSERT INTO t SELECT CAST({value} AS {kind})")
        fitting = [need for need in CONSTANTS if _fits(need, kind)]
        for need in fitting:
            for constant in CONSTANTS[need]:
                for shape in SHAPES:
                    con.execute(f"SELECT count(*) FROM t WHERE {shape.format(constant)}").fetchall()


@pytest.mark.parametrize(
    ("kind", "need"),
    [("VARCHAR", "integer"), ("DECIMAL(38,0)", "DECIMAL(3,2)"), ("ENUM('b', 'a')", "text"), ("DATE", "text")],
)
def test_what_could_fail_or_mean_something_else_does_not_fit(kind: str, need: str) -> None:
    assert not _fits(need, kind)
    assert _fits("any", kind)
