from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pz_core.contract import LoadRequest, Strategy
from pz_core.errors import PzError
from pz_core.plugins import Registry
from pz_core.strategies.append import Append
from pz_core.strategies.merge import Merge
from pz_core.strategies.replace import Replace
from pz_core.values import Column

Connection = duckdb.DuckDBPyConnection


@pytest.fixture
def db() -> Iterator[Connection]:
    con = duckdb.connect()
    yield con
    con.close()


def request(columns: Sequence[str], keys: Sequence[str] = (), **more: Any) -> LoadRequest:
    made = tuple(Column(c, "BIGINT") for c in columns)
    return LoadRequest("mart.orders", "batch", "target", made, tuple(keys), **more)


def load(db: Connection, strategy: Strategy, asked: LoadRequest) -> None:
    db.begin()
    for statement in strategy.program(asked):
        db.execute(statement)
    db.commit()


def rows(db: Connection, select: str = "SELECT * FROM target") -> list[tuple[Any, ...]]:
    return sorted(db.execute(select).fetchall(), key=repr)


def test_registry_finds_the_three_through_the_hook() -> None:
    registry = Registry()
    assert [registry.load("strategy", n) for n in ("append", "merge", "replace")] == [Append, Merge, Replace]


def test_traits_say_what_the_rules_need() -> None:
    assert (Append.traits.takes_keys, Append.traits.idempotent, Append.traits.needs_complete_batch) == (False,) * 3
    assert (Replace.traits.idempotent, Replace.traits.needs_complete_batch) == (True, True)
    assert (Merge.traits.takes_keys, Merge.traits.idempotent, Merge.traits.needs_complete_batch) == (True, True, False)
    assert [s.traits.takes_changes for s in (Append, Merge, Replace)] == [False, True, False]
    assert Merge.traits.load_modes == ("program",)


def test_append_adds_by_name_not_by_place(db: Connection) -> None:
    db.execute("CREATE TABLE target AS SELECT 1 AS a, 2 AS b, 3 AS c")
    db.execute("CREATE TABLE batch AS SELECT 20 AS b, 10 AS a")
    load(db, Append(), request(["b", "a"]))
    assert rows(db) == [(1, 2, 3), (10, 20, None)]


@pytest.mark.parametrize("key", ["", "PRIMARY KEY"])
def test_replace_leaves_exactly_the_batch_twice_in_a_row(db: Connection, key: str) -> None:
    db.execute(f"CREATE TABLE target (a INT {key}, b INT)")
    db.execute("INSERT INTO target VALUES (1, 1), (2, 2)")
    db.execute("CREATE TABLE batch AS SELECT unnest([2, 3]) AS a, 9 AS b")
    load(db, Replace(), request(["a", "b"]))
    load(db, Replace(), request(["a", "b"]))
    assert rows(db) == [(2, 9), (3, 9)]


def test_replace_with_nothing_empties_the_target(db: Connection) -> None:
    db.execute("CREATE TABLE target AS SELECT 1 AS a")
    db.execute("CREATE TABLE batch AS SELECT 1 AS a WHERE FALSE")
    load(db, Replace(), request(["a"]))
    assert rows(db) == []


def test_merge_updates_inserts_and_removes_nothing(db: Connection) -> None:
    db.execute("CREATE TABLE target (id INT PRIMARY KEY, v VARCHAR, kept INT)")
    db.execute("INSERT INTO target VALUES (1, 'a', 7), (2, 'b', 8)")
    db.execute("CREATE TABLE batch AS SELECT * FROM (VALUES ('B', 2), (NULL, 1), ('c', 3)) v(v, id)")
    for _ in range(2):
        load(db, Merge(), request(["v", "id"], ["id"]))
        assert rows(db) == [(1, None, 7), (2, "B", 8), (3, "c", None)]


def test_merge_keeps_the_last_of_each_key_by_order_of_arrival(db: Connection) -> None:
    db.execute("CREATE TABLE target AS SELECT 1 AS id, 0 AS v, 0 AS n")
    db.execute("CREATE TABLE batch AS SELECT i % 2 + 1 AS id, i AS v, -i AS n FROM range(100000) r(i)")
    load(db, Merge(), request(["id", "v", "n"], ["id"]))
    assert rows(db) == [(1, 99998, -99998), (2, 99999, -99999)]
    load(db, Merge(), request(["id", "v", "n"], ["id"], order="n"))
    assert rows(db) == [(1, 0, 0), (2, 1, -1)]


def test_merge_whose_columns_are_all_keys_only_inserts(db: Connection) -> None:
    db.execute("CREATE TABLE target AS SELECT 1 AS a, 1 AS b")
    db.execute("CREATE TABLE batch AS SELECT * FROM (VALUES (1, 1), (1, 2), (1, 2)) v(a, b)")
    load(db, Merge(), request(["a", "b"], ["b", "a"]))
    assert rows(db) == [(1, 1), (1, 2)]


def test_merge_into_an_empty_target_and_with_an_empty_batch(db: Connection) -> None:
    db.execute("CREATE TABLE target (id INT, v INT)")
    db.execute("CREATE TABLE batch AS SELECT 1 AS id, 5 AS v")
    load(db, Merge(), request(["id", "v"], ["id"]))
    db.execute("DELETE FROM batch")
    load(db, Merge(), request(["id", "v"], ["id"]))
    assert rows(db) == [(1, 5)]


NAMES = ["select", "Order", 'we"ird', "a.b", "{0}", "pz_rank", "target", "batch", "Ünïcode", "pz_target"]


@pytest.mark.parametrize("strategy", [Append(), Merge(), Replace()])
def test_any_name_of_column_and_table_works(db: Connection, strategy: Strategy) -> None:
    listed = ", ".join('"' + n.replace('"', '""') + '" BIGINT' for n in NAMES)
    db.execute('CREATE SCHEMA "from"')
    for name in ('"from"."in""to"', '"group"'):
        db.execute(f"CREATE TABLE {name} ({listed})")
    db.execute(f'INSERT INTO "group" VALUES ({", ".join(["1"] * len(NAMES))}), ({", ".join(["2"] * len(NAMES))})')
    made = tuple(Column(n, "BIGINT") for n in NAMES)
    keys = tuple(NAMES[:3]) if strategy.traits.takes_keys else ()
    asked = LoadRequest("m.{odd}", '"group"', '"from"."in""to"', made, keys)
    for probe in strategy.probes(asked):
        found = db.execute(probe.sql).fetchall()
        assert len(found) == 1 and found[0][0] == 0
        assert "{odd}" in probe.message.format(*found[0])
    load(db, strategy, asked)
    assert rows(db, 'SELECT count(*) FROM "from"."in""to"') == [(2,)]


def test_keys_match_columns_whatever_their_case(db: Connection) -> None:
    db.execute("CREATE TABLE target AS SELECT 1 AS Id, 0 AS v")
    db.execute("CREATE TABLE batch AS SELECT 1 AS ID, 5 AS v")
    load(db, Merge(), request(["Id", "v"], ["iD"]))
    assert rows(db) == [(1, 5)]


def test_a_key_that_the_batch_lacks_is_named() -> None:
    for call in (Merge().probes, Merge().program):
        with pytest.raises(PzError) as caught:
            call(request(["id", "v"], ["id", "nope"]))
        assert caught.value.code == "PZ0209"
        assert "nope" in caught.value.message and "mart.orders" in caught.value.message


def probed(db: Connection, asked: LoadRequest) -> dict[str, tuple[Any, ...]]:
    return {p.code: db.execute(p.sql).fetchall()[0] for p in Merge().probes(asked)}


def test_probes_count_null_keys_and_repeated_keys(db: Connection) -> None:
    db.execute(
        "CREATE TABLE batch AS SELECT * FROM "
        "(VALUES (1, 1), (1, 1), (1, 1), (2, 2), (2, 2), (3, NULL), (NULL, NULL)) v(a, b)"
    )
    assert probed(db, request(["a", "b"], ["a", "b"])) == {"PZ0521": (2,), "PZ0522": (2, 3)}
    null, repeated = Merge().probes(request(["a", "b"], ["a", "b"]))
    assert (null.severity, repeated.severity) == ("error", "warning")
    assert repeated.fields == ("duplicateGroups", "extraRows")
    assert "mart.orders" in null.message and "(a, b)" in null.message


def test_probes_of_an_empty_batch_find_nothing(db: Connection) -> None:
    db.execute("CREATE TABLE batch (a INT)")
    assert probed(db, request(["a"], ["a"])) == {"PZ0521": (0,), "PZ0522": (0, 0)}


@pytest.mark.parametrize(
    "kind", ["DOUBLE", "DECIMAL(10,2)", "VARCHAR", "DATE", "TIMESTAMPTZ", "UUID", "BLOB", "BOOLEAN"]
)
def test_keys_of_any_type_find_their_row(db: Connection, kind: str) -> None:
    value = {
        "DOUBLE": "'nan'", "DECIMAL(10,2)": "1.25", "VARCHAR": "''", "DATE": "'2026-01-01'", "BOOLEAN": "false",
        "TIMESTAMPTZ": "'2026-01-01 00:00:00+00'", "UUID": "'6f9619ff-8b86-d011-b42d-00c04fc964ff'", "BLOB": "'\\x00'",
    }[kind]  # fmt: skip
    db.execute(f"CREATE TABLE target (k {kind}, v INT)")
    db.execute(f"CREATE TABLE batch AS SELECT CAST({value} AS {kind}) AS k, 1 AS v")
    asked = LoadRequest("m.o", "batch", "target", (Column("k", kind), Column("v", "INTEGER")), ("k",))
    load(db, Merge(), asked)
    load(db, Merge(), asked)
    assert rows(db, "SELECT count(*) FROM target") == [(1,)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.none() | st.integers()), max_size=8),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.none() | st.integers()), max_size=8),
)
def test_merge_agrees_with_a_dictionary(first: list[Any], second: list[Any]) -> None:
    bound = [[(a, b, None if v is None else v % 1000) for a, b, v in batch] for batch in (first, second)]
    with duckdb.connect() as db:
        db.execute("CREATE TABLE target (a INT, b INT, v INT)")
        model: dict[tuple[int, int], int | None] = {}
        for batch in bound:
            db.execute("CREATE OR REPLACE TABLE batch (a INT, b INT, v INT)")
            if batch:
                db.executemany("INSERT INTO batch VALUES (?, ?, ?)", batch)
            load(db, Merge(), request(["a", "b", "v"], ["a", "b"]))
            model.update({(a, b): v for a, b, v in batch})
        assert rows(db) == sorted(((a, b, v) for (a, b), v in model.items()), key=repr)


def test_merge_of_a_hundred_thousand_wide_rows_is_quick(db: Connection) -> None:
    names = ["id", *(f"c{i}" for i in range(30))]
    body = ", ".join(f"i AS {n}" for n in names)
    db.execute(f"CREATE TABLE target AS SELECT {body} FROM range(100000) r(i)")
    db.execute(f"CREATE TABLE batch AS SELECT {body.replace('i AS id', 'i + 50000 AS id')} FROM range(100000) r(i)")
    started = time.monotonic()
    load(db, Merge(), request(names, ["id"]))
    assert time.monotonic() - started < 30
    assert rows(db, "SELECT count(*), count(DISTINCT id), max(c7) FROM target") == [(150000, 150000, 99999)]


@pytest.mark.parametrize("strategy", [Append(), Merge(), Replace()])
def test_the_program_has_a_form_in_postgres(strategy: Strategy) -> None:
    import sqlglot

    asked = LoadRequest(
        "m.o",
        '"staged"',
        '"s"."Order"',
        (Column("select", "BIGINT"), Column("v", "DOUBLE")),
        ("select",),
        order='"pz_seq"',
    )
    statements = [*strategy.program(asked), *(p.sql for p in strategy.probes(asked))]
    for statement in statements:
        made = sqlglot.transpile(statement, read="duckdb", write="postgres", unsupported_level=sqlglot.ErrorLevel.RAISE)
        assert len(made) == 1
        assert "QUALIFY" not in made[0]
        assert sqlglot.parse_one(made[0], read="postgres")
