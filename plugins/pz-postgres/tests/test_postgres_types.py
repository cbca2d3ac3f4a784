"""Every type of PostgreSQL out and in, both tiers, exactly or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from pz_core.contract.connector import ConnectorError, ReadSpec, WriteSpec
from pz_core.errors import PzError
from pz_core.testkit.bench import Bench
from pz_core.testkit.rows import Rows, read_rows

#: A value of each type that ``\dT`` lists, by the type's name; what is not here is tried with NULL.
SAMPLES = {
    '"char"': "a", "aclitem": "postgres=r/postgres", "bigint": "9223372036854775807", "bit": "1",
    "bit varying": "10101", "boolean": "t", "box": "(3,4),(1,2)", "bytea": "\\x00ff", "character": "x",
    "character varying": "it's", "cid": "4294967295", "cidr": "10.0.0.0/8", "circle": "<(1,2),3>",
    "date": "2024-02-29", "datemultirange": "{[2024-01-01,2024-01-03)}", "daterange": "[2024-01-01,infinity)",
    "double precision": "5e-324", "inet": "10.0.0.1", "int2vector": "1 2", "int4multirange": "{[1,2),[5,6)}",
    "int4range": "empty", "int8multirange": "{}", "int8range": "[1,5)", "integer": "-2147483648",
    "interval": "1 year -3 days 04:05:06.789", "json": '{"a": 1,  "a":2}', "jsonb": '{"b": 12345678901234567890.5}',
    "jsonpath": '$."a"', "line": "{1,2,3}", "lseg": "[(1,2),(3,4)]", "macaddr": "08:00:2b:01:02:03",
    "macaddr8": "08:00:2b:01:02:03:04:05", "money": "-0.05", "name": "n", "numeric": "-0.000000001",
    "nummultirange": "{[1.5,2.5)}", "numrange": "(,1.5]", "oid": "4294967295", "oidvector": "1 2",
    "path": "((1,2),(3,4))", "pg_lsn": "16/B374D848", "pg_snapshot": "10:20:10,14", "point": "(1,2.5)",
    "polygon": "((1,2),(3,4))", "real": "1e-45", "refcursor": "c", "regclass": "pg_class", "regrole": "postgres",
    "regtype": "integer", "smallint": "-32768", "text": "é漢😀\t\n", "tid": "(1,2)",
    "time with time zone": "12:00:00+15:59:59", "time without time zone": "24:00:00",
    "timestamp with time zone": "2024-02-28 20:02:03.123456+00", "timestamp without time zone": "infinity",
    "tsmultirange": "{}", "tsquery": "'a' & 'b'", "tsrange": '["2020-01-01 00:00:00",infinity)',
    "tstzmultirange": "{}", "tstzrange": '["2020-01-01 00:00:00+00",infinity)', "tsvector": "'a':1 'b':2",
    "txid_snapshot": "10:20:10,14", "uuid": "ffffffff-ffff-ffff-ffff-ffffffffffff", "xid": "4294967295",
    "xid8": "18446744073709551615",
}  # fmt: skip
#: What DuckDB's text of the value is, where it is not PostgreSQL's.
SPELLED = {
    "boolean": "true", "bytea": "00FF", "interval": "1 year -3 days 04:05:06.789", "money": "-0.050000000",
}  # fmt: skip
LISTED = r"""
SELECT pg_catalog.format_type(t.oid, NULL) FROM pg_catalog.pg_type t
WHERE t.typtype IN ('b', 'r', 'm') AND t.typrelid = 0 AND pg_catalog.pg_type_is_visible(t.oid)
  AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_type el WHERE el.oid = t.typelem AND el.typarray = t.oid) ORDER BY 1
"""


def test_every_listed_type_arrives_as_its_text_or_its_own_value(pg: Any, bench: Callable[..., Bench]) -> None:
    types = [row[0] for row in pg.run(LISTED)]
    assert len(types) > 60 and set(SAMPLES) <= set(types)
    pg.run("CREATE TABLE every (" + ", ".join(f"c{i} {kind}" for i, kind in enumerate(types)) + ")")
    pg.run("SELECT set_config('datestyle', 'ISO', false)")
    cast = ", ".join("NULL" if t not in SAMPLES else f"%s::text::{t}" for t in types)
    pg.run(
        f"INSERT INTO every VALUES ({cast})".replace('::text::"char"', ""), *(SAMPLES[t] for t in types if t in SAMPLES)
    )
    tests = bench(pg)
    for tier in ("native", "universal"):
        landed = tests.land(ReadSpec("every"), tier)  # type: ignore[arg-type]
        texts = texts_of(landed.rows)
        for kind, text in zip(types, texts[0], strict=True):
            assert text == (SPELLED.get(kind, SAMPLES.get(kind))), (tier, kind)


def texts_of(rows: Rows) -> list[list[str | None]]:
    """Rows as texts, of which no two values of a type have the same."""
    return [list(row) for row in rows.texts]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric", "NaN"),
        ("numeric", "Infinity"),
        ("numeric", "0.1234567891"),
        ("numeric", "123456789012345678901234567890"),
        ("numeric(20,4)", "NaN"),
        ("numeric(50,10)", "12345678901234567890123456789.5"),
        ("timestamp", "294247-01-10 04:00:54.775807"),
        ("timestamptz", "294276-12-31 23:59:59.999999+00"),
        ("integer[]", "{{1,2},{3,4}}"),
        ("integer[]", "[0:1]={1,2}"),
        ("numeric(10,2)[]", "{NaN}"),
        ("timestamp[]", "{294276-12-31}"),
    ],
)
def test_what_duckdb_cannot_hold_is_refused_by_column_and_type(
    pg18: Any, bench: Callable[..., Bench], kind: str, value: str
) -> None:
    pg18.run(f"CREATE TABLE hard (id int, awkward {kind})")
    pg18.run(f"INSERT INTO hard VALUES (1, NULL), (2, %s::text::{kind})", value)
    tests = bench(pg18)
    with tests.one_run():
        for tier in ("native", "universal"):
            with pytest.raises(ConnectorError) as caught:
                tests.land(ReadSpec("hard"), tier)  # type: ignore[arg-type]
            assert caught.value.code == "PZ0812" and "awkward" in caught.value.message
            assert kind.split("(")[0].split("[")[0].removesuffix("tz") in caught.value.message
            assert value == "NaN" or value not in caught.value.message
            whole = tests.land(ReadSpec("hard", columns={"awkward": "varchar"}), tier)  # type: ignore[arg-type]
            assert pg18.run("SELECT concat(awkward) FROM hard WHERE id = 2")[0][0] in str(texts_of(whole.rows))


def test_an_infinite_interval_is_refused_where_the_server_has_one(pg18: Any, bench: Callable[..., Bench]) -> None:
    pg18.run("CREATE TABLE spans AS SELECT interval 'infinity' AS span")
    with pytest.raises(ConnectorError, match="span"):
        bench(pg18).land(ReadSpec("spans"), "native")


def test_blanks_of_char_and_labels_domains_and_rows_arrive(pg: Any, bench: Callable[..., Bench]) -> None:
    pg.run("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    pg.run("CREATE TYPE pair AS (a int, b text)")
    pg.run("CREATE DOMAIN price AS numeric(10,2)")
    pg.run("CREATE TABLE odd (c char(5), m mood, p pair, q pair, d price, ms mood[], n numeric[])")
    pg.run("INSERT INTO odd VALUES ('ab', 'sad', (1, NULL), (NULL, NULL), 1.5, '{sad}', '{1.5,NULL}')")
    for tier in ("native", "universal"):
        landed = bench(pg).land(ReadSpec("odd"), tier)  # type: ignore[arg-type]
        assert texts_of(landed.rows) == [["ab   ", "sad", "(1,)", "(,)", "1.50", "{sad}", "[1.500000000,null]"]]


OUT = {
    "boolean": "true", "tiny": "(-128)::TINYINT", "utiny": "255::UTINYINT", "ubig": "18446744073709551615::UBIGINT",
    "huge": "(-170141183460469231731687303715884105728)::HUGEINT", "real": "'nan'::FLOAT",
    "double": "'-0'::DOUBLE", "money": "(-999.9)::DECIMAL(4,1)",
    "fine": "'0.99999999999999999999999999999999999999'::DECIMAL(38,38)",
    "f18": "'0.999999999999999999'::DECIMAL(18,18)",
    "f9": "0.999999999::DECIMAL(9,9)", "f17": "'9.12345678901234567'::DECIMAL(18,17)", "f4": "0.9999::DECIMAL(4,4)",
    "f36": "'12.123456789012345678901234567890123456'::DECIMAL(38,36)",
    "wide": "99999999999999999999999999999.999999999::DECIMAL(38,9)", "empty": "''",
    "text": "'é漢😀' || chr(9) || '\\N'",
    "bytes": "'\\x00\\xFF'::BLOB", "uuid": "'ffffffff-ffff-ffff-ffff-ffffffffffff'::UUID", "day": "'infinity'::DATE",
    "bc": "'0001-01-01 (BC)'::DATE", "at": "'-infinity'::TIMESTAMP",
    "last": "'294247-01-10 04:00:54.775806'::TIMESTAMP",
    "zoned": "'2024-02-29 01:02:03.123456+00'::TIMESTAMPTZ", "clock": "'24:00:00'::TIME",
    "zclock": "'12:00:00+15:59:59'::TIMETZ", "span": "'1 year 2 months 3 days 04:05:06.789'::INTERVAL",
    "json": """'{"a": 1,  "a":2}'::JSON""", "bits": "'10101'::BIT", "list": "[1, NULL, 3]::INTEGER[]",
    "texts": "['a', NULL, 'b \"c,', '', 'NULL', '\\']", "prices": "[1.50, NULL]::DECIMAL(10,2)[]",
    "nothing": "NULL::INTEGER[]",
}  # fmt: skip


@pytest.mark.parametrize("tier", ["native", "universal"])
def test_what_duckdb_has_goes_out_and_comes_back(pg: Any, bench: Callable[..., Bench], tier: Any) -> None:
    query = "SELECT " + ", ".join(f'{sql} AS "{name}"' for name, sql in OUT.items())
    tests = bench(pg)
    with tests.one_run():
        for _ in range(2):  # into a new table, then into one that is there
            tests.drain(query, WriteSpec("out", strategy="replace", load_mode="program", run_id="r"), tier)
        back = texts_of(tests.land(ReadSpec("out"), tier).rows)
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        assert back == texts_of(read_rows(con, f"({query})"))


@pytest.mark.parametrize(
    "sql",
    [
        "{'a': 1}", "map {1: 2}", "[[1], [2]]", "'a' || chr(0)", "['a' || chr(0)]",
        "'290308-12-22 (BC) 00:00:00'::TIMESTAMP", "['290308-12-22 (BC) 00:00:00'::TIMESTAMP]",
        "'5881580-07-10'::DATE", "'2024-01-01 00:00:00.123456789'::TIMESTAMP_NS",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tier", ["native", "universal"])
def test_what_postgres_cannot_hold_is_refused_before_a_table_is_there(
    pg18: Any, bench: Callable[..., Bench], sql: str, tier: Any
) -> None:
    with pytest.raises(PzError) as caught:
        bench(pg18).drain(
            f"SELECT 1 AS id, {sql} AS awkward", WriteSpec("refused", strategy="replace", load_mode="program"), tier
        )
    assert caught.value.code == "PZ0812" and "awkward" in caught.value.message
    assert pg18.run("SELECT to_regclass('public.refused')") == [(None,)]


@pytest.mark.parametrize("tier", ["native", "universal"])
@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("varchar(3)", "'abc'", "'ab    '"),
        ("char(3)", "'ab'", "'abcd'"),
        ("timestamp(0)", "'2024-01-01 00:00:01'::TIMESTAMP", "'2024-01-01 00:00:01.6'::TIMESTAMP"),
        ("time(3)", "'00:00:01.123'::TIME", "'00:00:01.1234'::TIME"),
        ("mood", "'sad'", "'sorry'"),
        ("inet", "'10.0.0.1'", "'10.0.0.1/32'"),
        ("numeric", "9223372036854775807", "1.5::DOUBLE"),
        ("numeric(20,2)", "12345678901234567.25::DECIMAL(19,2)", "0.125::DECIMAL(4,3)"),
        ("jsonb", """'{"a": 1}'::JSON""", "'no json'"),
        ("uuid", "'ffffffff-ffff-ffff-ffff-ffffffffffff'::UUID", "'x'"),
    ],
)
def test_a_target_type_that_says_more_takes_what_it_can_hold(
    pg18: Any, bench: Callable[..., Bench], tier: Any, kind: str, good: str, bad: str
) -> None:
    pg18.run("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    pg18.run(f"CREATE TABLE strict (v {kind})")
    spec = WriteSpec("strict", strategy="append", load_mode="program")
    tests = bench(pg18)
    with tests.one_run():
        tests.drain(f"SELECT {good} AS v", spec, tier)
        before = pg18.run("SELECT v::text FROM strict")
        with pytest.raises(PzError) as caught:
            tests.drain(f"SELECT {bad} AS v", spec, tier)
    assert caught.value.code in ("PZ0812", "PZ0804", "PZ0501")
    assert pg18.run("SELECT v::text FROM strict") == before and len(before) == 1
