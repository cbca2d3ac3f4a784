from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import duckdb
import pytest

from pz_core.checks.accepted_values import AcceptedValues
from pz_core.checks.custom_sql import CustomSql
from pz_core.checks.freshness import Freshness
from pz_core.checks.not_null import NotNull
from pz_core.checks.row_count import RowCount
from pz_core.checks.unique import Unique
from pz_core.contract import Check, CheckQuery

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RELATION = '"staging"."t"'


@pytest.fixture
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    con.execute("SET TimeZone = 'UTC'")
    con.execute("CREATE SCHEMA staging")
    yield con
    con.close()


def table(db: duckdb.DuckDBPyConnection, select: str) -> None:
    db.execute(f"CREATE OR REPLACE TABLE staging.t AS {select}")


def ask(check: Check, body: Any, now: datetime = NOW) -> CheckQuery:
    return check.query(check.define(body), RELATION, now)


def count(db: duckdb.DuckDBPyConnection, query: CheckQuery) -> int:
    rows = db.execute(query.count).fetchall()
    assert len(rows) == 1
    return int(rows[0][0])


def test_not_null_counts_rows_not_nulls_and_shows_whole_rows(db: duckdb.DuckDBPyConnection) -> None:
    table(db, "SELECT * FROM (VALUES (1, NULL), (NULL, NULL), (3, 'c')) v(a, b)")
    query = ask(NotNull(), ["a", "b"])
    assert count(db, query) == 2
    assert sorted(map(str, db.execute(query.sample or "").fetchall())) == ["(1, None)", "(None, None)"]


def test_samples_stop_at_five(db: duckdb.DuckDBPyConnection) -> None:
    table(db, "SELECT NULL::INT AS a, i FROM range(9) r(i)")
    for query in (
        ask(NotNull(), ["a"]),
        ask(AcceptedValues(), {"column": "i", "values": [100]}),
        ask(CustomSql(), {"name": "x", "sql": "from staging.t"}),
    ):
        assert count(db, query) == 9
        assert len(db.execute(query.sample or "").fetchall()) == 5


@pytest.mark.parametrize(
    "name", ["select", "order", 'we"ird', "t", "staging", "a.b", "Größe", "value", "written", "times", " x "]
)
def test_any_column_name_works_in_every_check(db: duckdb.DuckDBPyConnection, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    table(db, f"SELECT DATE '2020-01-01' AS {quoted} UNION ALL SELECT DATE '2020-01-01' UNION ALL SELECT NULL")
    queries = [
        (ask(NotNull(), [name]), 1),
        (ask(Unique(), [name]), 1),
        (ask(AcceptedValues(), {"column": name, "values": ["2020-01-02"]}), 2),
        (ask(Freshness(), {"column": name, "max_age": "1d"}), 1),
    ]
    for query, violations in queries:
        assert count(db, query) == violations
        for shown in (query.sample, query.detail):
            if shown:
                assert db.execute(shown).fetchall()


@pytest.mark.parametrize("check", [NotNull(), Unique()])
def test_a_missing_column_is_an_error_even_if_it_is_the_relations_name(
    db: duckdb.DuckDBPyConnection, check: Check
) -> None:
    table(db, "SELECT 1 AS a")
    for name in ("nope", "t", "staging", "pz checked"):
        with pytest.raises(duckdb.Error):
            db.execute(ask(check, [name]).count)


def test_unique_counts_groups_and_nulls_are_one(db: duckdb.DuckDBPyConnection) -> None:
    table(db, "SELECT unnest([1, 1, 1, 2, 2, 3, NULL, NULL]) AS a")
    query = ask(Unique(), ["a"])
    assert count(db, query) == 3
    assert query.unit == "key groups"
    assert db.execute(query.sample or "").fetchall()[0] == (1, 3)


def test_unique_over_a_column_named_times(db: duckdb.DuckDBPyConnection) -> None:
    table(db, "SELECT unnest([5, 5, 6]) AS times")
    assert db.execute(ask(Unique(), ["times"]).sample or "").fetchall() == [(5, 2)]


@pytest.mark.parametrize(
    ("body", "rows", "violations"),
    [
        ({"min": 1}, 0, 1),
        ({"min": 1}, 1, 0),
        ({"max": 2}, 2, 0),
        ({"max": 2}, 3, 1),
        ({"min": 2, "max": 2}, 2, 0),
        ({"min": -5}, 0, 0),
        ({"max": 10**40}, 3, 0),
        ({"min": 10**40}, 3, 1),
    ],
)
def test_row_count_bounds_are_inclusive(
    db: duckdb.DuckDBPyConnection, body: dict[str, int], rows: int, violations: int
) -> None:
    table(db, f"SELECT i FROM range({rows}) r(i)")
    query = ask(RowCount(), body)
    assert count(db, query) == violations
    assert query.sample is None
    assert db.execute(query.detail or "").fetchall()[0][0] == rows


LIMIT = "2026-03-01 11:00:00"


@pytest.mark.parametrize(
    ("select", "violations"),
    [
        (f"SELECT TIMESTAMP '{LIMIT}' AS at", 0),
        (f"SELECT TIMESTAMP '{LIMIT}' - INTERVAL 1 MICROSECOND AS at", 1),
        (f"SELECT TIMESTAMPTZ '{LIMIT}+00' AS at", 0),
        ("SELECT TIMESTAMPTZ '2026-03-01 12:00:00+01' AS at", 0),
        ("SELECT TIMESTAMPTZ '2026-03-01 11:59:59.999999+01' AS at", 1),
        (f"SELECT TIMESTAMP_NS '{LIMIT}' AS at", 0),
        (f"SELECT TIMESTAMP_S '{LIMIT}' AS at", 0),
        ("SELECT DATE '2026-03-01' AS at", 1),
        ("SELECT DATE '2026-03-02' AS at", 0),
        ("SELECT NULL::TIMESTAMP AS at", 1),
        ("SELECT NULL::DATE AS at WHERE FALSE", 1),
        ("SELECT 'infinity'::TIMESTAMP AS at", 0),
        ("SELECT '-infinity'::TIMESTAMP AS at", 1),
        (f"SELECT unnest([NULL, TIMESTAMP '2000-01-01', TIMESTAMP '{LIMIT}']) AS at", 0),
    ],
)
def test_freshness_at_the_limit(db: duckdb.DuckDBPyConnection, select: str, violations: int) -> None:
    table(db, select)
    query = ask(Freshness(), {"column": "at", "max_age": "1h"})
    assert count(db, query) == violations
    newest, limit = db.execute(query.detail or "").fetchall()[0]
    assert limit == "2026-03-01 11:00:00.000000+00:00"
    assert newest is None or isinstance(newest, str)


def test_freshness_takes_any_clock_as_the_instant_that_it_is(db: duckdb.DuckDBPyConnection) -> None:
    table(db, f"SELECT TIMESTAMP '{LIMIT}' AS at")
    body = {"column": "at", "max_age": "1h"}
    assert count(db, ask(Freshness(), body, NOW.astimezone(timezone(timedelta(hours=-8))))) == 0
    assert count(db, ask(Freshness(), body, NOW.replace(tzinfo=None))) == 0
    assert count(db, ask(Freshness(), body, NOW + timedelta(microseconds=1))) == 1


def test_freshness_with_an_age_beyond_the_calendar_passes(db: duckdb.DuckDBPyConnection) -> None:
    table(db, f"SELECT TIMESTAMP '{LIMIT}' AS at")
    assert count(db, ask(Freshness(), {"column": "at", "max_age": "99999999d"})) == 0


@pytest.mark.parametrize("select", ["SELECT 'yesterday' AS at", "SELECT 5 AS at WHERE FALSE", "SELECT {'a': 1} AS at"])
def test_freshness_of_another_type_fails_in_our_words_without_a_value(
    db: duckdb.DuckDBPyConnection, select: str
) -> None:
    table(db, select)
    with pytest.raises(duckdb.Error, match="date or timestamp column; 'at' is") as caught:
        db.execute(ask(Freshness(), {"column": "at", "max_age": "1h"}).count).fetchall()
    assert "yesterday" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "values", "accepted"),
    [
        ("1", [1, 2], True),
        ("3", [1, 2], False),
        ("2::DOUBLE", [2], True),
        ("2", [2.0], True),
        ("2::TINYINT", [2], True),
        ("18446744073709551615::UBIGINT", [18446744073709551615], True),
        ("18446744073709551614::UBIGINT", [18446744073709551615], False),
        ("9007199254740993", [9007199254740992], False),
        ("9007199254740992::DOUBLE", [9007199254740993], False),
        ("9007199254740992::DOUBLE", [9007199254740992], True),
        ("170141183460469231731687303715884105727::HUGEINT", [170141183460469231731687303715884105727], True),
        ("1", [10**60], False),
        ("1::DOUBLE", [10**400], False),
        ("0.1::FLOAT", [0.1], True),
        ("16777216::FLOAT", [16777217], False),
        ("0.1::DOUBLE", [0.1], True),
        ("0.1::DECIMAL(38,37)", [0.1, 123456.5], True),
        ("1.50::DECIMAL(5,2)", [1.5], True),
        ("100::DECIMAL(5,0)", [100], True),
        ("100::DECIMAL(5,2)", [1], False),
        ("0.0000001::DECIMAL(9,7)", [1e-7], True),
        ("'nan'::DOUBLE", [1.0], False),
        ("-0.0::DOUBLE", [0], True),
        ("TRUE", [True], True),
        ("TRUE", [1], False),
        ("1", [True], False),
        ("FALSE", [True], False),
        ("TRUE", ["true"], True),
        ("'a'", ["a"], True),
        ("'A'", ["a"], False),
        ("''", ["a"], False),
        ("''", [""], True),
        ("'it''s'", ["it's"], True),
        ("'12'", [12], True),
        ("'012'", [12], False),
        ("'true'", [True], True),
        ("7", ["seven", "eight"], False),
        ("7", ["7"], True),
        ("7.5::DOUBLE", ["lots"], False),
        ("DATE '2026-01-02'", ["2026-01-02"], True),
        ("DATE '2026-01-02'", ["not a day"], False),
        ("TIMESTAMP '2026-01-02'", ["2026-01-02"], True),
        ("TIMESTAMP '2026-01-02 03:04:05.5'", ["2026-01-02T03:04:05.500"], True),
        ("TIMESTAMPTZ '2026-01-02 00:00:00+01'", ["2026-01-01T23:00:00Z"], True),
        ("TIME '12:30'", ["12:30"], True),
        ("'6F9619FF-8B86-D011-B42D-00C04FC964FF'::UUID", ["6F9619FF-8B86-D011-B42D-00C04FC964FF"], True),
        ("'b'::ENUM('a', 'b')", ["b"], True),
        ("'b'::ENUM('a', 'b')", ["a"], False),
        ("[1, 2]", ["x"], False),
        ("{'a': 1}", [1], False),
    ],
)
def test_accepted_values_by_type(db: duckdb.DuckDBPyConnection, value: str, values: list[Any], accepted: bool) -> None:
    table(db, f"SELECT {value} AS c UNION ALL SELECT NULL UNION ALL SELECT {value}")
    query = ask(AcceptedValues(), {"column": "c", "values": values})
    assert count(db, query) == (0 if accepted else 2)
    assert len(db.execute(query.sample or "").fetchall()) == (0 if accepted else 1)


def test_accepted_values_with_a_mixed_list_never_fails_on_a_type(db: duckdb.DuckDBPyConnection) -> None:
    mixed = ["a", 2, 3.5, True]
    for value, violations in (("'a'", 0), ("2", 0), ("3.5", 0), ("TRUE", 0), ("'b'", 1), ("DATE '2020-01-01'", 1)):
        table(db, f"SELECT {value} AS c")
        assert count(db, ask(AcceptedValues(), {"column": "c", "values": mixed})) == violations


def test_accepted_values_sample_is_distinct_and_carries_the_columns_name(db: duckdb.DuckDBPyConnection) -> None:
    table(db, "SELECT unnest(['b', 'b', 'c', 'ok']) AS \"order\"")
    query = ask(AcceptedValues(), {"column": "order", "values": ["ok"]})
    shown = db.execute(query.sample or "")
    assert [d[0] for d in shown.description or []] == ["order"]
    assert shown.fetchall() == [("b",), ("c",)]
    assert count(db, query) == 3


@pytest.mark.parametrize(
    "sql",
    [
        "select * from staging.t where i < 2;",
        "select * from staging.t where i < 2 ; ; -- over",
        "select * from staging.t where i < 2 -- trailing comment",
        "with x as (select * from staging.t) select * from x where i < 2",
        "from staging.t where i < 2",
        "select a.i, b.i from staging.t a join staging.t b using (i) where i < 2",
        "select i from staging.t order by i limit 2",
        "values (1), (2)",
    ],
)
def test_custom_sql_counts_what_the_query_returns(db: duckdb.DuckDBPyConnection, sql: str) -> None:
    table(db, "SELECT i FROM range(7) r(i)")
    query = ask(CustomSql(), {"name": "low", "sql": sql})
    assert count(db, query) == 2
    assert len(db.execute(query.sample or "").fetchall()) == 2


def test_custom_sql_cannot_change_anything(db: duckdb.DuckDBPyConnection) -> None:
    table(db, "SELECT 1 AS i")
    with pytest.raises(duckdb.Error):
        db.execute(ask(CustomSql(), {"name": "x", "sql": "delete from staging.t"}).count)
    assert db.execute("SELECT count(*) FROM staging.t").fetchall() == [(1,)]


def test_an_empty_relation_passes_everything_but_a_minimum_and_freshness(db: duckdb.DuckDBPyConnection) -> None:
    table(db, "SELECT 1 AS a, TIMESTAMP '2026-01-01' AS at WHERE FALSE")
    assert count(db, ask(NotNull(), ["a"])) == 0
    assert count(db, ask(Unique(), ["a"])) == 0
    assert count(db, ask(AcceptedValues(), {"column": "a", "values": ["x"]})) == 0
    assert count(db, ask(RowCount(), {"min": 1})) == 1
    assert count(db, ask(Freshness(), {"column": "at", "max_age": "1h"})) == 1


def test_checks_work_on_views(db: duckdb.DuckDBPyConnection) -> None:
    db.execute("CREATE VIEW staging.t AS SELECT unnest([1, 1]) AS a")
    assert count(db, ask(Unique(), ["a"])) == 1
