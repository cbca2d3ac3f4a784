"""Loads: one transaction, readers undisturbed, privileges, policies, two at once; and what a read leaves out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pz_postgres.catalog import PgColumn
from pz_postgres.connector import Postgres
from pz_postgres.filters import bounds_of, pushed

from pz_core.contract.connector import ConnectorError, CursorBounds, ReadSpec, WriteSpec
from pz_core.errors import PzError
from pz_core.testkit.bench import Bench
from pz_core.testkit.project import ProjectTester
from pz_core.values import Column

TIERS = pytest.mark.parametrize("tier", ["native", "universal"])


def spec(entity: str, strategy: str = "append", **more: Any) -> WriteSpec:
    return WriteSpec(entity, strategy=strategy, load_mode="program", run_id="r", **more)


def leftovers(address: Any) -> list[Any]:
    return address.run("SELECT relname FROM pg_class WHERE relname LIKE 'pz\\_%'")


@TIERS
def test_merge_updates_inserts_and_keeps_the_last_of_a_key(pg18: Any, bench: Callable[..., Bench], tier: Any) -> None:
    pg18.run("CREATE TABLE people (id int PRIMARY KEY, name text, born timestamptz DEFAULT now())")
    pg18.run("INSERT INTO people (id, name) VALUES (1, 'a'), (2, 'b')")
    rows = "SELECT * FROM (VALUES (2, 'x'), (3, 'c'), (2, 'last')) v(id, name)"
    done = bench(pg18).drain(rows, spec("people", "merge", keys=("id",)), tier)
    assert pg18.run("SELECT id, name FROM people ORDER BY id") == [(1, "a"), (2, "last"), (3, "c")]
    assert done.rows_staged == 3 and done.rows_written == 2
    assert leftovers(pg18) == []


@TIERS
def test_a_null_key_stops_the_load_before_anything_is_written(
    pg18: Any, bench: Callable[..., Bench], tier: Any
) -> None:
    with pytest.raises(PzError) as caught:
        bench(pg18).drain("SELECT NULL::INTEGER AS id", spec("nulls", "merge", keys=("id",)), tier)
    assert caught.value.code == "PZ0521" and pg18.run("SELECT to_regclass('nulls')") == [(None,)]


def test_readers_see_the_old_rows_until_the_commit(pg18: Any, connector: Callable[..., Postgres]) -> None:
    pg18.run("CREATE TABLE board AS SELECT i FROM generate_series(1, 5) i")
    sink = connector(pg18).open_sink()
    session = sink.begin(spec("board", "replace"), (Column("i", "INTEGER"),))
    session.write(pa.RecordBatch.from_pydict({"i": pa.array([7], pa.int32())}))
    for sql in ('DELETE FROM "public"."board"', 'INSERT INTO "public"."board" ("i") SELECT "i" FROM pg_temp.pz_staged'):
        session.execute(sql)
    assert pg18.run("SELECT count(*) FROM board") == [(5,)]
    assert session.commit().rows == 1
    assert pg18.run("SELECT i FROM board") == [(7,)]


@TIERS
def test_two_merges_at_once_leave_one_row_a_key(pg18: Any, bench: Callable[..., Bench], tier: Any) -> None:
    pg18.run("CREATE TABLE counted (id bigint, by text)")
    faults: list[BaseException] = []

    def load(name: str) -> None:
        try:
            rows = f"SELECT i AS id, '{name}' AS by FROM range(2000) r(i)"
            bench(pg18).drain(rows, spec("counted", "merge", keys=("id",)), tier)
        except BaseException as error:  # noqa: BLE001 - told below
            faults.append(error)

    threads = [threading.Thread(target=load, args=(n,)) for n in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert pg18.run("SELECT count(*), count(DISTINCT id), count(DISTINCT by) FROM counted") == [(2000, 2000, 1)]


@TIERS
def test_rows_that_a_trigger_swallows_are_missed(pg18: Any, bench: Callable[..., Bench], tier: Any) -> None:
    pg18.run("CREATE TABLE picky (id int)")
    pg18.run(
        "CREATE FUNCTION drop_odd() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN IF NEW.id % 2 = 1 THEN RETURN NULL; END IF; RETURN NEW; END'"
    )
    pg18.run("CREATE TRIGGER t BEFORE INSERT ON picky FOR EACH ROW EXECUTE FUNCTION drop_odd()")
    with pytest.raises(PzError) as caught:
        bench(pg18).drain("SELECT i::INTEGER AS id FROM range(10) r(i)", spec("picky"), tier)
    assert caught.value.code == "PZ0811"


@TIERS
def test_a_role_that_may_only_insert_can_append(pg18: Any, bench: Callable[..., Bench], tier: Any) -> None:
    role = f"writer_{pg18.database}_{tier}"
    pg18.run(f"CREATE ROLE {role} LOGIN PASSWORD 'p w''\\@:/%'")
    try:
        pg18.run("CREATE TABLE inbox (id int, note varchar(9), n numeric)")
        pg18.run(f"GRANT INSERT ON inbox TO {role}")
        made = bench(pg18, user=role, password="p w'\\@:/%")
        made.drain("SELECT 1 AS id, '' AS note, 1.5::DECIMAL(4,1) AS n", spec("inbox"), tier)
        assert pg18.run("SELECT * FROM inbox")[0][:2] == (1, "")
        with pytest.raises(ConnectorError, match="permission denied") as caught:
            made.drain("SELECT 1 AS id", spec("inbox", "replace"), tier)
        assert not caught.value.transient and "grant" in str(caught.value.hint)
    finally:
        pg18.run("DROP TABLE inbox")
        pg18.run(f"DROP ROLE {role}")


@TIERS
@pytest.mark.parametrize(
    ("policy", "columns", "rows"),
    [
        ("fail_on_change", None, [(1,)]),
        ("additive", ["id", "extra"], [(1, None), (5, "x")]),
        ("evolve", ["id", "extra"], [(1, None), (5, "x")]),
        ("ignore", ["id"], [(1,), (5,)]),
    ],
)
def test_schema_policies(
    pg18: Any, bench: Callable[..., Bench], tier: Any, policy: str, columns: list[str] | None, rows: list[Any]
) -> None:
    pg18.run("CREATE TABLE shaped AS SELECT 1 AS id")
    made, target = bench(pg18), spec("shaped", schema_policy=policy)
    if columns is None:
        with pytest.raises(PzError) as caught:
            made.drain("SELECT 5 AS id, 'x' AS extra", target, tier)
        assert caught.value.code == "PZ0804" and "extra" in caught.value.message
    else:
        made.drain("SELECT 5 AS id, 'x' AS extra", target, tier)
    assert pg18.run("SELECT * FROM shaped ORDER BY id") == rows


@TIERS
def test_evolve_widens_a_column(pg18: Any, bench: Callable[..., Bench], tier: Any) -> None:
    pg18.run("CREATE TABLE widened AS SELECT 1::int AS id")
    bench(pg18).drain("SELECT 9007199254740993 AS id", spec("widened", schema_policy="evolve"), tier)
    assert pg18.run("SELECT id, pg_typeof(id)::text FROM widened ORDER BY id") == [
        (1, "bigint"), (9007199254740993, "bigint"),
    ]  # fmt: skip


@TIERS
def test_names_keep_their_case_and_a_schema_is_made(pg18: Any, bench: Callable[..., Bench], tier: Any) -> None:
    bench(pg18).drain('SELECT 1 AS "Nr", 2 AS "select"', spec("Mart.Order Lines"), tier)
    assert pg18.run('SELECT "Nr", "select" FROM "Mart"."Order Lines"') == [(1, 2)]


@pytest.mark.parametrize("database", [("LATIN1", "é"), ("UTF8", "漢")])
def test_reads_do_not_depend_on_the_databases_encoding_or_zone(
    postgres18: Any, bench: Callable[..., Bench], database: tuple[str, str]
) -> None:
    import dataclasses

    encoding, text = database
    name = f"enc_{encoding.lower()}_{id(bench)}"
    postgres18.run(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    try:
        postgres18.run(f"ALTER DATABASE {name} SET timezone TO 'Asia/Tokyo'")
        there = dataclasses.replace(postgres18, database=name)
        there.run("CREATE TABLE t AS SELECT %s::text AS s, tstzrange('2026-01-01 00:00+00', NULL) AS r", text)
        for tier in ("native", "universal"):
            landed = bench(there).land(ReadSpec("t"), tier)  # type: ignore[arg-type]
            assert landed.rows.texts == ((text, '["2026-01-01 00:00:00+00",)'),)
    finally:
        postgres18.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_query_is_read_as_it_stands_and_cannot_write(pg18: Any, bench: Callable[..., Bench]) -> None:
    pg18.run("CREATE TABLE t AS SELECT i, i::text AS s FROM generate_series(1, 9) i")
    made = bench(pg18)
    query = "WITH x AS (SELECT * FROM t WHERE s LIKE '%''' OR i > 7) SELECT i, count(*) OVER () AS n FROM x -- all\n;"
    for tier in ("native", "universal"):
        landed = made.land(ReadSpec("any.name.at_all", {"query": query}), tier)  # type: ignore[arg-type]
        assert sorted(landed.rows.texts) == [("8", "2"), ("9", "2")]
    pg18.run("CREATE FUNCTION wipe() RETURNS int LANGUAGE sql AS 'DELETE FROM t; SELECT 1'")
    with pytest.raises(ConnectorError, match="read-only"):
        made.land(ReadSpec("w", {"query": "SELECT wipe()"}), "native")
    with pytest.raises(ConnectorError, match="one name"):
        made.land(ReadSpec("w", {"query": 'SELECT 1 AS a, 2 AS "A"'}), "native")


@pytest.mark.parametrize("column", ["id", "n", "f", "at", "zoned", "day"])
def test_partitions_hold_every_row_once_and_see_one_moment(
    pg: Any, connector: Callable[..., Postgres], column: str
) -> None:
    pg.run(
        "CREATE TABLE parts AS SELECT i AS id, round(i / 7.0, 3) AS n, (i * 1.5)::float8 AS f, "
        "timestamp '2020-01-01' + i * interval '1 hour' AS at, "
        "timestamptz '2020-01-01' + i * interval '1 hour' AS zoned, "
        "date '2020-01-01' + i AS day FROM generate_series(1, 500) i"
    )
    pg.run("INSERT INTO parts (id) VALUES (NULL), (-1)")
    pg.run("INSERT INTO parts (at, zoned, day, f) VALUES ('infinity', '-infinity', 'infinity', 'NaN')")
    source = connector(pg).open_source()
    read = ReadSpec("parts", {"partition_column": column, "partitions": 4})
    assert source.native_scan(read) is None
    parts = source.partitions(read)
    pg.run("INSERT INTO parts (id) VALUES (77)")
    try:
        counts = [sum(b.num_rows for b in source.read(read, part, 100)) for part in parts]
    finally:
        source.close()
    assert len(parts) == 4 and sum(counts) == 503 and sum(c > 90 for c in counts) == 4


def test_a_column_of_one_value_gives_one_part(pg18: Any, connector: Callable[..., Postgres]) -> None:
    pg18.run("CREATE TABLE same AS SELECT 1 AS id, 'x' AS s FROM generate_series(1, 5)")
    source = connector(pg18).open_source()
    assert len(source.partitions(ReadSpec("same", {"partition_column": "id", "partitions": 4}))) == 1
    with pytest.raises(ConnectorError) as caught:
        source.partitions(ReadSpec("same", {"partition_column": "s", "partitions": 4}))
    assert caught.value.code == "PZ0353"
    source.close()


COLUMNS = (
    PgColumn("id", "bigint", "int8"), PgColumn("s", "text", "text"), PgColumn("c", "character(3)", "bpchar", 7),
    PgColumn("x", "text", "text", deterministic=False), PgColumn("at", "timestamp", "timestamp"),
    PgColumn("z", "timestamptz", "timestamptz"), PgColumn("n", "numeric(9,2)", "numeric", 589830),
    PgColumn("f", "double precision", "float8"), PgColumn("row", "pair", "pair", kind="c", system=False),
)  # fmt: skip


@pytest.mark.parametrize(
    ("predicate", "sent"),
    [
        ("\"id\" > 5 AND \"s\" = 'it''s'", ('"id" > 5', "\"s\" = 'it''s'::pg_catalog.text")),
        ("\"s\" < 'b'", ()),
        ("\"s\" LIKE 'a%'", ()),
        ("\"c\" = 'ab'", ()),
        ("\"x\" = 'ab'", ()),
        ('"row" IS NULL', ()),
        ('"f" > 0.1', ()),
        ('"id" > 5 OR "s" < \'b\'', ()),
        ('NOT ("id" IN (1, 2))', ('"id" NOT IN (1, 2)',)),
        ("\"at\" >= '2026-01-02'", ("\"at\" >= '2026-01-02'::pg_catalog.timestamp",)),
        (
            "\"z\" BETWEEN '2026-01-02 00:00:00' AND '2026-01-03'",
            (
                "\"z\" >= '2026-01-02 00:00:00+00'::pg_catalog.timestamptz AND "
                "\"z\" <= '2026-01-03'::pg_catalog.timestamptz",
            ),
        ),
        ('"n" = 1.50', ("\"n\" = '1.50'::pg_catalog.numeric",)),
        ('5 < "id"', ('"id" > 5',)),
        ('"s" IS NULL', ('"s" IS NULL',)),
    ],
)
def test_only_what_means_the_same_on_the_server_is_sent(predicate: str, sent: tuple[str, ...]) -> None:
    assert pushed(predicate, COLUMNS) == sent


def test_bounds_are_sent_where_the_types_compare_exactly() -> None:
    at = CursorBounds("at", "timestamp", "2026-01-01T00:00:00.000000", False, "2026-02-01T00:00:00.000000")
    assert bounds_of(at, COLUMNS) == (
        "\"at\" > '2026-01-01T00:00:00.000000'::pg_catalog.timestamp AND "
        "\"at\" <= '2026-02-01T00:00:00.000000'::pg_catalog.timestamp"
    )
    assert bounds_of(CursorBounds("id", "bigint", upper="7"), COLUMNS) == '("id" <= 7 OR "id" IS NULL)'
    assert bounds_of(CursorBounds("s", "bigint", "7"), COLUMNS) is None
    assert bounds_of(CursorBounds("id", "bigint", "7", with_nulls=True), COLUMNS) == '("id" > 7) OR "id" IS NULL'


def test_how_each_column_is_read_is_a_rule_in_the_plan_and_a_choice_in_the_results(tmp_path: Path, pg18: Any) -> None:
    pg18.run("CREATE TABLE bill (id int, amount numeric(10,2), note text)")
    pg18.run("INSERT INTO bill VALUES (1, 2.50, 'x')")
    project = ProjectTester(tmp_path)
    project.write(
        {
            "connections.yml": {
                "pg": {"connector": "postgres", **pg18.options()},
                "lake": {"connector": "localfiles", "root": "out"},
            },
            "pipelines/bill.sql": "INSERT INTO {{ sink('lake', 'bill', strategy: 'replace') }}\n"
            "SELECT id, amount FROM {{ source('pg', 'bill') }}",
        }
    )
    planned = next(n for n in json.loads(project.run("plan", "--json").out)["nodes"] if n["kind"] == "SourceLoad")
    assert "binary" in planned["decidedAtRun"]["access"] and "text" in planned["decidedAtRun"]["access"]
    assert project.run("run").code == 0
    (landed,) = (n for n in project.results()["nodes"] if n["kind"] == "SourceLoad")
    assert landed["choices"]["access"] == "binary, but amount as text"
