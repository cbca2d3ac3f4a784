"""Change capture end to end: what a project's runs make of what happens to a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEEP = pytest.mark.deep
TARGETS = pytest.mark.parametrize("place", ["postgres", "duckdb"])
#: The other target runs the same program; it is tried with the counts that take longer.
MOSTLY_POSTGRES = pytest.mark.parametrize("place", ["postgres", pytest.param("duckdb", marks=DEEP)])
MOSTLY_DUCKDB = pytest.mark.parametrize("place", ["duckdb", pytest.param("postgres", marks=DEEP)])


@TARGETS
def test_a_first_run_takes_all_rows_and_later_ones_what_changed(
    shop: Callable[..., Any], pg18: Any, place: str
) -> None:
    made = shop(place=place)
    first = made.good()
    assert first["rows"] == 5 and first["cdc"]["inserts"] == 5
    assert len(made.rows()) == 5
    pg18.run("INSERT INTO orders VALUES (6, 'six', 1.5)")
    pg18.run("UPDATE orders SET name = 'two' WHERE id = 2")
    pg18.run("DELETE FROM orders WHERE id IN (3, 4)")
    second = made.good()
    assert {k: v for k, v in second["cdc"].items() if k != "position"} == {"inserts": 1, "updates": 1, "deletes": 2}
    assert second["rows"] == 2
    assert made.rows() == pg18.run("SELECT * FROM orders ORDER BY id")
    empty = made.good()
    assert empty["rows"] == 0 and empty["cdc"]["position"] is None
    assert made.rows() == pg18.run("SELECT * FROM orders ORDER BY id")


@MOSTLY_DUCKDB
def test_the_last_change_of_a_key_counts_and_a_changed_key_is_another_row(
    shop: Callable[..., Any], pg18: Any, place: str
) -> None:
    made = shop(place=place)
    made.good()
    pg18.run("INSERT INTO orders VALUES (7, 'a', 1)")
    pg18.run("UPDATE orders SET name = 'b' WHERE id = 7")
    pg18.run("DELETE FROM orders WHERE id = 7")
    pg18.run("UPDATE orders SET id = 50 WHERE id = 5")
    pg18.run("DELETE FROM orders WHERE id = 1")
    pg18.run("INSERT INTO orders VALUES (1, 'again', NULL)")
    node = made.good()
    assert (node["cdc"]["inserts"], node["cdc"]["updates"], node["cdc"]["deletes"]) == (2, 2, 3)
    assert node["rows"] == 2 and node["accounting"]["deletes"] == 2 and node["accounting"]["superseded"] == 3
    made.same()


def test_transactions_are_taken_whole_and_one_that_was_rolled_back_is_not(shop: Callable[..., Any], pg18: Any) -> None:
    made = shop()
    made.good()
    with pg18.connect() as open_one, pg18.connect() as undone:
        open_one.execute("BEGIN")
        open_one.execute("UPDATE orders SET name = 'late' WHERE id <= 2")
        undone.execute("BEGIN")
        undone.execute("DELETE FROM orders WHERE id = 5")
        undone.execute("ROLLBACK")
        pg18.run("UPDATE orders SET name = 'soon' WHERE id = 3")
        assert made.good()["cdc"]["updates"] == 1
        open_one.execute("COMMIT")
    assert made.good()["cdc"]["updates"] == 2
    made.same()


@pytest.mark.parametrize("identity", ["DEFAULT", pytest.param("FULL", marks=DEEP)])
@MOSTLY_POSTGRES
def test_a_long_value_that_was_not_written_anew_arrives(
    shop: Callable[..., Any], pg18: Any, place: str, identity: str
) -> None:
    pg18.run("ALTER TABLE orders ADD COLUMN long text, ADD COLUMN numbers numeric[], ADD COLUMN doc jsonb")
    pg18.run("ALTER TABLE orders ALTER COLUMN long SET STORAGE EXTERNAL, ALTER COLUMN doc SET STORAGE EXTERNAL")
    pg18.run(f"ALTER TABLE orders REPLICA IDENTITY {identity}")
    pg18.run("UPDATE orders SET long = repeat(id::text || chr(228), 9000), doc = to_jsonb(repeat('''', 5000))")
    made = shop(place=place)
    made.good()
    pg18.run("UPDATE orders SET name = 'new' WHERE id IN (1, 2)")
    pg18.run("UPDATE orders SET id = 30 WHERE id = 3")
    pg18.run("UPDATE orders SET name = 'gone' WHERE id = 4")
    pg18.run("DELETE FROM orders WHERE id = 4")
    made.good()
    shown = "id, name, n, md5(long), length(doc::text)"
    if place == "duckdb":
        shown = "id, name, n, md5(long), length(CAST(doc AS VARCHAR))"
    assert made.rows(shown) == pg18.run("SELECT id, name, n, md5(long), length(doc::text) FROM orders ORDER BY 1")
    assert pg18.run("SELECT count(*) FROM pg_replication_slots WHERE temporary") == [(0,)]
    pg18.run("UPDATE orders SET name = 'later' WHERE id = 1")
    assert made.good()["cdc"]["updates"] == 1


@MOSTLY_POSTGRES
def test_a_soft_delete_stamps_and_a_row_that_comes_back_loses_the_stamp(
    shop: Callable[..., Any], pg18: Any, place: str
) -> None:
    made = shop(place=place, on_delete="soft")
    made.good()
    pg18.run("DELETE FROM orders WHERE id IN (1, 2)")
    made.good()
    stamped = made.rows("id, name, _pz_deleted_at IS NOT NULL")
    assert stamped[:3] == [(1, "row 1", True), (2, "row 2", True), (3, "row 3", False)]
    first = made.rows("id, _pz_deleted_at")[1]
    pg18.run("INSERT INTO orders VALUES (1, 'back', 0)")
    made.good()
    assert made.rows("id, name, _pz_deleted_at")[0] == (1, "back", None)
    assert made.rows("id, _pz_deleted_at")[1] == first


def test_a_soft_delete_needs_its_column_and_additive_adds_it(shop: Callable[..., Any], pg18: Any) -> None:
    pg18.run("CREATE SCHEMA mart")
    pg18.run("CREATE TABLE mart.orders (id int PRIMARY KEY, name text, n numeric(10,2))")
    assert "PZ0804" in (said := shop(place="postgres", on_delete="soft").refused()) and "_pz_deleted_at" in said
    made = shop(place="postgres", on_delete="soft", policy="additive")
    made.good()
    assert len(made.rows("_pz_deleted_at")) == 5


@DEEP
def test_ignored_deletes_leave_the_rows(shop: Callable[..., Any], pg18: Any) -> None:
    made = shop(on_delete="ignore")
    made.good()
    pg18.run("DELETE FROM orders WHERE id > 2")
    assert made.good()["cdc"]["deletes"] == 3
    assert len(made.rows()) == 5


@pytest.mark.parametrize(
    ("keys", "sql"),
    [
        (["key"], "SELECT id AS key, name FROM {{ source('shop', 'orders') }}"),
        pytest.param(["name"], "SELECT * FROM {{ source('shop', 'orders') }}", marks=DEEP),
        (["id"], "SELECT (id % 3)::TINYINT + 127 AS id, name FROM {{ source('shop', 'orders') }} WHERE id < 0"),
    ],
)
def test_deletes_whose_keys_are_not_the_merge_keys_are_refused_before_any_write(
    shop: Callable[..., Any], pg18: Any, keys: list[str], sql: str
) -> None:
    made = shop(keys=keys, sql=sql.replace("(id % 3)::TINYINT + 127 AS id", "(id % 3)::TINYINT AS id"))
    if keys == ["id"]:
        made.good()
        pg18.run("INSERT INTO orders VALUES (1000, 'x', 0)")
        made.good()
        pg18.run("DELETE FROM orders WHERE id = 1000")
    said = made.refused()
    assert "PZ0340" in said and "deletes cannot be applied" in said


def test_a_truncate_fails_the_run_and_a_full_refresh_goes_on(shop: Callable[..., Any], pg18: Any) -> None:
    made = shop()
    made.good()
    pg18.run("TRUNCATE orders")
    pg18.run("INSERT INTO orders VALUES (9, 'nine', 9)")
    said = made.refused()
    assert "PZ0338" in said and "truncated" in said and "--full-refresh" in said
    assert len(made.rows()) == 5
    (made.project.folder / "mart.duckdb").unlink()
    assert made.good("--full-refresh")["rows"] == 1
    pg18.run("UPDATE orders SET name = 'ten'")
    made.good()
    made.same()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("ALTER TABLE orders DROP COLUMN n", "columns are gone"),
        pytest.param("ALTER TABLE orders RENAME COLUMN n TO m", "columns are gone", marks=DEEP),
        pytest.param("ALTER TABLE orders ALTER COLUMN n TYPE text", "another type", marks=DEEP),
        ("ALTER TABLE orders ADD COLUMN state text DEFAULT 'new'", "state"),
        pytest.param(
            "DROP TABLE orders; CREATE TABLE orders (id int PRIMARY KEY, name text, n numeric(10,2))", None, marks=DEEP
        ),
    ],
)
def test_a_table_whose_old_rows_the_log_does_not_tell_is_refused(
    shop: Callable[..., Any], pg18: Any, change: str, told: str | None
) -> None:
    made = shop()
    made.good()
    for sql in change.split("; "):
        pg18.run(sql)
    said = made.refused()
    assert "PZ0537" in said and "--full-refresh" in said and (told or "made anew") in said
    assert len(made.rows()) == 5


@MOSTLY_DUCKDB
def test_a_new_column_is_taken_up_where_the_target_may_grow(shop: Callable[..., Any], pg18: Any, place: str) -> None:
    made = shop(place=place, policy="additive")
    made.good()
    pg18.run("UPDATE orders SET name = 'before' WHERE id = 1")
    pg18.run("ALTER TABLE orders ADD COLUMN state text")
    pg18.run("UPDATE orders SET state = 'sent' WHERE id IN (2, 3)")
    pg18.run("ALTER TABLE orders ADD COLUMN z int")
    pg18.run("INSERT INTO orders VALUES (6, 'six', 6, 'open', 6)")
    made.good()
    made.same()


@DEEP
def test_a_new_column_is_refused_where_the_target_may_not_change(shop: Callable[..., Any], pg18: Any) -> None:
    made = shop()
    made.good()
    pg18.run("ALTER TABLE orders ADD COLUMN state text")
    pg18.run("UPDATE orders SET state = 'sent' WHERE id = 2")
    assert "PZ0804" in made.refused()
    pg18.run("UPDATE orders SET name = 'x' WHERE id = 2")
    assert "PZ0804" in made.refused()


def test_captured_values_are_those_that_a_read_gives(tmp_path: Path, pg18: Any, make_shop: Any) -> None:
    types = {
        "b": ("bool", "true"), "i2": ("smallint", "-32768"), "i8": ("bigint", "9223372036854775807"),
        "f4": ("real", "0.1"), "f8": ("double precision", "'-Infinity'"), "f8n": ("double precision", "'NaN'"),
        "num": ("numeric(38,9)", "12345678901234567890.123456789"), "big": ("numeric(60,0)", "12345678901234567890123"),
        "t": ("text", "E'it''s \\\\ \"q\"\\n\\t\u00e4\U0001f600'"), "e": ("text", "''"), "c": ("char(6)", "'ab'"),
        "v": ("varchar(9)", "'a b '"), "by": ("bytea", "'\\x00ff27'"), "u": ("uuid", "gen_random_uuid()"),
        "d": ("date", "'0044-03-15 BC'"), "di": ("date", "'infinity'"), "tm": ("time", "'24:00'"),
        "tz": ("timetz", "'12:30:00.000001+05:30'"), "ts": ("timestamp", "'9999-12-31 23:59:59.999999'"),
        "tt": ("timestamptz", "'2024-03-31 02:30:00.123456+01'"), "iv": ("interval", "'1 year -3 days 00:00:01.5'"),
        "j": ("json", "'{\"a\": [1, null, 1e400]}'"), "jb": ("jsonb", "'{\"a\": 1.50}'"), "m": ("money", "1234.5"),
        "o": ("oid", "4294967295"), "ia": ("int[]", "'{1,NULL,3}'"), "ta": ("text[]", "array['a,b', '\"', NULL, '']"),
        "na": ("numeric(9,2)[]", "'{1.10,NULL}'"), "tsa": ("timestamp[]", "'{2024-01-01 00:00:00.5}'"),
        "inet": ("inet", "'10.0.0.1/8'"), "bits": ("bit(5)", "'10101'"), "rng": ("int4range", "'[1,5)'"),
        "mood": ("mood", "'so so'"), "pos": ("positive", "5"), "pair": ("pair", "row(1, 'x y')"),
    }  # fmt: skip
    pg18.run("CREATE TYPE mood AS ENUM ('sad', 'so so')")
    pg18.run("CREATE DOMAIN positive AS bigint CHECK (VALUE > 0)")
    pg18.run("CREATE TYPE pair AS (a int, b text)")
    pg18.run(f"CREATE TABLE kinds (id int PRIMARY KEY, {', '.join(f'{n} {t}' for n, (t, _) in types.items())})")
    values = ", ".join(v for _, v in types.values())
    pg18.run(f"INSERT INTO kinds VALUES (1, {values})")
    sql = "SELECT * FROM {{ source('shop', 'kinds') }}"
    made = make_shop(tmp_path, pg18, entity="kinds", sql=sql, keys=["id"])
    assert made.good()["rows"] == 1
    pg18.run(f"INSERT INTO kinds VALUES (2, {values}), (3{', NULL' * len(types)})")
    pg18.run("UPDATE kinds SET u = (SELECT u FROM kinds WHERE id = 1) WHERE id = 2")
    assert made.good()["rows"] == 2
    one, two, three = made.rows()
    assert repr(one[1:]) == repr(two[1:]) and three[1:] == (None,) * len(types)
    described = [r[:2] for r in made.rows("* FROM (DESCRIBE orders) --")]
    assert ("num", "DECIMAL(38,9)") in described and ("tt", "TIMESTAMP WITH TIME ZONE") in described


@DEEP
def test_a_value_that_a_read_would_refuse_fails_the_capture_too(shop: Callable[..., Any], pg18: Any) -> None:
    pg18.run("ALTER TABLE orders ADD COLUMN x numeric")
    made = shop()
    made.good()
    pg18.run("UPDATE orders SET x = 'NaN' WHERE id = 1")
    said = made.refused()
    assert "PZ0812" in said and "'x'" in said


def test_a_contract_chooses_columns_and_types(shop: Callable[..., Any], pg18: Any, make_shop: Any) -> None:
    made = shop(read={"columns": {"id": "bigint", "n": "varchar"}})
    made.good()
    pg18.run("UPDATE orders SET name = 'unseen', n = 7.5 WHERE id = 1")
    pg18.run("DELETE FROM orders WHERE id = 2")
    made.good()
    assert made.rows()[:2] == [(1, "7.50"), (3, "0.75")]
    assert "leaves out the key" in make_shop(
        made.project.folder, pg18, read={"columns": {"n": "varchar"}}, keys=["n"]
    ).refused("--full-refresh")


def test_schemas_quotes_and_composite_keys(tmp_path: Path, pg18: Any, make_shop: Any) -> None:
    table = '"O\'dd"."Line"'
    pg18.run('CREATE SCHEMA "O\'dd"')
    pg18.run(f'CREATE TABLE {table} ("Ord er" text, no int, v text, PRIMARY KEY (no, "Ord er"))')
    pg18.run(f"INSERT INTO {table} SELECT 'o''' || i, j, 'v' FROM generate_series(1, 3) i, generate_series(1, 3) j")
    sql = """SELECT * FROM {{ source('shop', "O'dd.Line") }}"""
    made = make_shop(tmp_path, pg18, place="postgres", entity="O'dd.Line", keys=["Ord er", "no"], sql=sql)
    made.good()
    pg18.run(f"DELETE FROM {table} WHERE \"Ord er\" = 'o''2' AND no <> 1")
    pg18.run(f"UPDATE {table} SET v = 'w' WHERE no = 1")
    made.good()
    assert sorted(made.rows()) == sorted(pg18.run(f"SELECT * FROM {table}"))


@DEEP
def test_a_partitioned_table_is_captured_as_one(tmp_path: Path, pg18: Any, make_shop: Any) -> None:
    pg18.run("CREATE TABLE orders (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    pg18.run("CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM (0) TO (10)")
    pg18.run("CREATE TABLE orders_2 PARTITION OF orders FOR VALUES FROM (10) TO (20)")
    pg18.run("INSERT INTO orders SELECT i, 'v' FROM generate_series(5, 14) i")
    made = make_shop(tmp_path, pg18)
    made.good()
    pg18.run("UPDATE orders SET id = 19 WHERE id = 5")
    pg18.run("DELETE FROM orders WHERE id = 14")
    made.good()
    made.same()
