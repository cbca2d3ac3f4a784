"""Whole plain tables, which DuckDB's extension reads over several connections: one moment, exact, or another way."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from servers import Unavailable
from servers.postgres import start_postgres

from pz_core.contract.connector import ConnectorError, ReadHints, ReadSpec
from pz_core.testkit.bench import Bench

SHARED = "several connections"
MakeBench = Callable[..., Bench]


def land(made: Bench, entity: str) -> tuple[str, list[tuple[str | None, ...]]]:
    """How a table was read, and its rows as texts, sorted."""
    landed = made.land(ReadSpec(entity), "native")
    return landed.result.choices["access"], sorted(map(tuple, landed.rows.texts), key=repr)


def same_both_ways(made: Bench, entity: str) -> list[tuple[str | None, ...]]:
    """The rows, which must be those of the universal tier."""
    _, rows = land(made, entity)
    others = made.land(ReadSpec(entity), "universal").rows.texts
    assert rows == sorted(map(tuple, others), key=repr)
    return rows


@pytest.fixture
def moving(pg18: Any) -> Iterator[Any]:
    """A table of many pages in which amounts go from row to row, and rows from page to page, without a pause."""
    pg18.run("CREATE TABLE accounts (id bigint, amount bigint, filler text) WITH (fillfactor = 50)")
    pg18.run("INSERT INTO accounts SELECT i, 100, repeat('x', 500) FROM generate_series(1, 60000) i")
    pg18.run("CREATE INDEX ON accounts (id)")
    pg18.run("VACUUM ANALYZE accounts")
    done = threading.Event()

    def move() -> None:
        with pg18.connect() as connection:
            turn = 0
            while not done.is_set():
                turn += 1
                one, other = 1 + turn * 7919 % 60000, 1 + turn * 104_729 % 60000
                if one == other:
                    continue
                with connection.transaction():
                    connection.execute("UPDATE accounts SET amount = amount - 1 WHERE id = %s", (one,))
                    connection.execute("UPDATE accounts SET amount = amount + 1 WHERE id = %s", (other,))

    writers = [threading.Thread(target=move, daemon=True) for _ in range(2)]
    for writer in writers:
        writer.start()
    yield pg18
    done.set()
    for writer in writers:
        writer.join()


def test_all_connections_of_a_read_see_one_moment(moving: Any, bench: MakeBench) -> None:
    made = bench(moving)
    for _ in range(3):
        access, rows = land(made, "accounts")
        assert SHARED in access
        assert len({row[0] for row in rows}) == len(rows) == 60_000
        assert sum(int(str(row[1])) for row in rows) == 6_000_000


def test_a_value_arrives_as_over_one_connection(pg: Any, bench: MakeBench) -> None:
    pg.run(
        "CREATE TABLE every (b boolean, s smallint, i integer, l bigint, r real, d double precision, t text, "
        "v varchar(9), y bytea, u uuid, a date, c time, z timetz, ts timestamp, tz timestamptz)"
    )
    pg.run("INSERT INTO every VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
    pg.run(
        "INSERT INTO every VALUES (true, -32768, 2147483647, -9223372036854775808, 'NaN', '-Infinity', "
        "E'é漢😀\\t\\n', '', '\\x00ff', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'infinity', '24:00:00', "
        "'12:00:00+15:59:59', "
        "'4713-01-01 00:00:00 BC', '294247-01-10 04:00:54.775806+00')"
    )
    made = bench(pg)
    assert SHARED in land(made, "every")[0]
    rows = same_both_ways(made, "every")
    assert len(rows) == 2 and any(row[11] == "24:00:00" for row in rows)


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_an_infinite_instant_is_told_from_one_that_only_looks_like_it(
    pg18: Any, bench: MakeBench, kind: str, value: str
) -> None:
    pg18.run(f"CREATE TABLE moments (at {kind})")
    pg18.run("INSERT INTO moments VALUES ('2026-01-01'), (%s)", value)
    made = bench(pg18)
    access, rows = land(made, "moments")
    assert SHARED not in access and (value,) in rows and len(rows) == 2


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("value", [f"294247-01-10 04:00:54.{n}" for n in (775807, 775808, 775809)] + ["294276-12-31"])
def test_an_instant_that_would_wrap_is_refused_by_name(pg18: Any, bench: MakeBench, kind: str, value: str) -> None:
    pg18.run(f"CREATE TABLE moments (id int, at {kind})")
    zone = "+00" if kind == "timestamptz" else ""
    pg18.run("INSERT INTO moments VALUES (1, '2026-01-01'), (2, %s)", value + zone)
    with pytest.raises(ConnectorError, match="'at'") as caught:
        bench(pg18).land(ReadSpec("moments"), "native")
    assert caught.value.code == "PZ0812"


NOT_SHARED = {
    "a view": ("CREATE TABLE base AS SELECT 1 AS i", "CREATE VIEW t AS SELECT * FROM base"),
    "a materialized view": ("CREATE MATERIALIZED VIEW t AS SELECT 1 AS i",),
    "a partitioned table": (
        "CREATE TABLE t (i int) PARTITION BY RANGE (i)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "INSERT INTO t VALUES (1)",
    ),
    "a table with children": (
        "CREATE TABLE t (i int)",
        "CREATE TABLE child () INHERITS (t)",
        "INSERT INTO child VALUES (1)",
    ),
    "two tables of one name, case aside": (
        "CREATE TABLE t AS SELECT 1 AS i",
        'CREATE TABLE "T" AS SELECT 2 AS i',
    ),
    "two schemas of one name, case aside": (
        "CREATE TABLE t AS SELECT 1 AS i",
        'CREATE SCHEMA "Public"',
        'CREATE TABLE "Public".t AS SELECT 2 AS i',
    ),
}


@pytest.mark.parametrize("statements", NOT_SHARED.values(), ids=NOT_SHARED)
def test_what_is_no_plain_table_of_one_name_goes_over_one_connection(
    pg18: Any, bench: MakeBench, statements: tuple[str, ...]
) -> None:
    for sql in statements:
        pg18.run(sql)
    access, rows = land(bench(pg18), "t")
    assert SHARED not in access and rows == [("1",)]


STRANGE = {
    "dropped columns": ("CREATE TABLE {t} (gone int, i int, gone2 text)", "ALTER TABLE {t} DROP gone, DROP gone2"),
    "a generated column": ("CREATE TABLE {t} (i int, j int GENERATED ALWAYS AS (i * 2) STORED)",),
    "an identity": ("CREATE TABLE {t} (i int, n int GENERATED ALWAYS AS IDENTITY)",),
    "no rows": ("CREATE TABLE {t} (i int)", "CREATE RULE nothing AS ON INSERT TO {t} DO INSTEAD NOTHING"),
    "neighbours of strange types": (
        "CREATE TABLE {t} (i int)",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN small AS int CHECK (VALUE < 100)",
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        "CREATE TABLE n1 (p pair, m mood[], s small, r int4range, x tsvector, q point[], w xid8)",
        "CREATE TABLE n2 ()",
        'CREATE TABLE "a.b" ("c d" int, "C" int)',
        "CREATE VIEW broken AS SELECT * FROM n1",
    ),
}


@pytest.mark.parametrize("statements", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("name", ["t", "two words", 'quo"te', "dot.ted", "Größe漢", "x" * 63])
def test_a_strange_table_or_name_is_read_all_the_same(
    pg18: Any, bench: MakeBench, statements: tuple[str, ...], name: str
) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    for sql in statements:
        pg18.run(sql.replace("{t}", quoted))
    pg18.run(f"INSERT INTO {quoted} (i) VALUES (1), (2)")
    made = bench(pg18)
    if "." in name:  # a dot parts schema and table
        with pytest.raises(ConnectorError):
            made.land(ReadSpec(name), "native")
        return
    rows = same_both_ways(made, name)
    assert len(rows) == (0 if "RULE" in statements[-1] else 2)


@pytest.fixture
def role(pg18: Any) -> Iterator[Any]:
    """Makes an address with a role of its own, dropped at the end with what it owns."""
    name = f"r_{pg18.database}"
    made = dataclasses.replace(pg18, user=name, password="word")
    pg18.run(f"CREATE ROLE {name} LOGIN PASSWORD 'word'")
    yield made
    pg18.run(f"DROP OWNED BY {name}")
    pg18.run(f"DROP ROLE {name}")


def test_a_role_sees_the_rows_that_it_may(pg18: Any, role: Any, bench: MakeBench) -> None:
    pg18.run("CREATE TABLE mine AS SELECT i, 'r' || i % 2 AS who FROM generate_series(1, 10) i")
    pg18.run("ALTER TABLE mine ENABLE ROW LEVEL SECURITY")
    pg18.run("CREATE POLICY odd ON mine USING (who = 'r1')")
    pg18.run(f"GRANT SELECT ON mine TO {role.user}")
    assert len(same_both_ways(bench(role), "mine")) == 5


def test_a_role_that_may_read_nothing_is_told_so(pg18: Any, role: Any, bench: MakeBench) -> None:
    pg18.run("CREATE TABLE secret AS SELECT 1 AS i")
    with pytest.raises(ConnectorError, match="permission denied"):
        bench(role).land(ReadSpec("secret"), "native")


@pytest.mark.parametrize("limit", ["ALTER ROLE {role} CONNECTION LIMIT 3", "ALTER DATABASE {db} CONNECTION LIMIT 5"])
def test_where_connections_are_counted_one_does(pg18: Any, role: Any, bench: MakeBench, limit: str) -> None:
    pg18.run("CREATE TABLE few AS SELECT 1 AS i")
    pg18.run(f"GRANT SELECT ON few TO {role.user}")
    pg18.run(limit.format(role=role.user, db=role.database))
    access, rows = land(bench(role), "few")
    assert SHARED not in access and rows == [("1",)]


CHANGED = [
    ("int", "1", "real", "1.5"),
    ("bigint", "1", "double precision", "1.5"),
    ("int", "1", "bigint", "5000000000"),
    ("int", "1", "date", "'2020-01-01'"),
    ("text", "'a'", "bytea", "'\\x01'"),
    ("bytea", "'\\x01'", "text", "'abc'"),
    ("timestamp", "'2020-01-01'", "timestamptz", "'2020-01-01'"),
    ("numeric", "1.5", "double precision", "2.5"),
    ("char(3)", "'a'", "text", "'a  '"),
    ("jsonb", "'1'", "text", "E'\\x01a'"),
]


@pytest.mark.parametrize(("kind", "value", "other", "new"), CHANGED, ids=lambda text: text.replace(" ", "_"))
def test_a_table_that_has_changed_within_a_run_is_read_by_its_new_types(
    pg18: Any, bench: MakeBench, kind: str, value: str, other: str, new: str
) -> None:
    pg18.run(f"CREATE TABLE t AS SELECT {value}::{kind} AS v")
    pg18.run("CREATE TABLE neighbour AS SELECT 1 AS i")
    made = bench(pg18)
    with made.one_run():
        assert SHARED in land(made, "neighbour")[0]  # the catalogue is loaded as a whole
        pg18.run("DROP TABLE t")
        pg18.run(f"CREATE TABLE t AS SELECT {new}::{other} AS v")
        assert len(same_both_ways(made, "t")) == 1


def test_a_table_that_has_grown_or_come_within_a_run_is_read_whole(pg18: Any, bench: MakeBench) -> None:
    pg18.run("CREATE TABLE t AS SELECT 1::bigint AS i")
    made = bench(pg18)
    with made.one_run():
        assert SHARED in land(made, "t")[0]
        pg18.run("INSERT INTO t SELECT i FROM generate_series(2, 200000) i")
        pg18.run("CREATE TABLE late AS SELECT 7 AS i")
        assert len(land(made, "t")[1]) == 200_000
        assert land(made, "late")[1] == [("7",)]
        pg18.run('CREATE TABLE "LATE" AS SELECT 8 AS i')
        assert [land(made, name) for name in ("late", "LATE")] == [("binary", [("7",)]), ("binary", [("8",)])]


def test_a_role_that_may_read_some_columns_reads_them(pg18: Any, role: Any, bench: MakeBench) -> None:
    pg18.run("CREATE TABLE part AS SELECT 1 AS a, 2 AS b")
    pg18.run(f"GRANT SELECT (a) ON part TO {role.user}")
    made = bench(role)
    for spec in (ReadSpec("part", columns={"a": "int"}), ReadSpec("part", hints=ReadHints(columns=("a",)))):
        assert made.land(spec, "native").rows.texts == (("1",),)
    with pytest.raises(ConnectorError, match="permission denied"):
        made.land(ReadSpec("part"), "native")


def patiently(read: Callable[[], Any]) -> Any:
    """What a run does about a fault that may pass."""
    for _ in range(20):
        try:
            return read()
        except ConnectorError as error:
            if not error.transient:
                raise
            threading.Event().wait(0.2)
    return read()


@pytest.mark.deep
def test_a_server_with_few_connections_left_gives_what_it_has(bench: MakeBench) -> None:
    try:
        server = start_postgres(18, {"max_connections": "12", "superuser_reserved_connections": "3"})
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        server.address.run("CREATE TABLE t AS SELECT i, repeat('x', 1000) AS s FROM generate_series(1, 100000) i")
        server.address.run("ANALYZE t")
        server.address.run("CREATE ROLE guest LOGIN PASSWORD 'word'")
        server.address.run("GRANT SELECT ON t TO guest")
        guest = dataclasses.replace(server.address, user="guest", password="word")
        for free in (0, 1, 2, 3):
            with contextlib.ExitStack() as held:
                for _ in range(12 - 3 - free):
                    held.enter_context(guest.connect())
                if free:
                    # The look gives its connection back, and a server takes its moment to see one off.
                    assert len(patiently(lambda: land(bench(guest), "t")[1])) == 100_000
                else:
                    with pytest.raises(ConnectorError, match="connection slots") as caught:
                        land(bench(guest), "t")
                    assert caught.value.transient and "max_connections" in str(caught.value.hint)
    finally:
        server.stop()
