from __future__ import annotations

import threading
import time

import duckdb
import pytest

from pz_core.contract.connector import ConnectorError, Move, NativeCopy, NativeTarget, Setup
from pz_core.contract.engine import Cancelled
from pz_core.contract.strategy import Probe
from pz_core.errors import PzError


def parquet(folder, name="orders"):
    final = folder / "out" / name / f"{name}.parquet"
    return NativeCopy(
        str(final.with_name(f".pz-{name}.tmp")),
        "FORMAT parquet",
        "copy",
        moves=(Move(str(final.with_name(f".pz-{name}.tmp")), str(final)),),
    ), final


def table(folder, name="orders", schema="main", file="mart"):
    setup = Setup(f"ATTACH IF NOT EXISTS '{folder}/{file}.duckdb' AS {file}", "attach")
    return NativeTarget(file, schema, name, "attach", (setup,))


def rows_of(path):
    return duckdb.execute(f"SELECT * FROM read_parquet('{path}') ORDER BY ALL").fetchall()


# --- native copy ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_view", [True, False])
def test_a_copy_makes_folders_and_swaps_in(bench, fakes, tmp_path, as_view):
    bench.make("SELECT i FROM range(5) r(i)", as_view=as_view)
    copy, final = parquet(tmp_path)
    sink = bench.sink(fakes.Sink(copy))
    for _ in range(2):
        result = bench.drain(strategy="replace", load_mode="swap")
        assert (result.rows_staged, result.rows_written, result.tier) == (5, 5, "native")
    assert rows_of(final) == [(i,) for i in range(5)]
    assert [p.name for p in final.parent.iterdir()] == ["orders.parquet"]
    assert sink.closed == 2


def test_removes_come_after_the_moves(bench, fakes, tmp_path):
    bench.make("SELECT 1 AS a")
    copy, final = parquet(tmp_path)
    final.parent.mkdir(parents=True)
    old = final.with_name("orders-old.parquet")
    old.write_text("old")
    missing = final.with_name("never-there.parquet")
    bench.sink(
        fakes.Sink(NativeCopy(copy.path, copy.options, "copy", moves=copy.moves, removes=(str(old), str(missing))))
    )
    bench.drain()
    assert [p.name for p in final.parent.iterdir()] == ["orders.parquet"]


def test_a_failed_copy_keeps_the_old_file_and_leaves_no_litter(bench, fakes, tmp_path):
    copy, final = parquet(tmp_path)
    final.parent.mkdir(parents=True)
    final.write_text("old content")
    bench.make("SELECT CASE WHEN i = 400000 THEN error('no') ELSE i END AS i FROM range(500000) r(i)", as_view=True)
    bench.sink(fakes.Sink(copy))
    with pytest.raises(PzError):
        bench.drain()
    assert [p.name for p in final.parent.iterdir()] == ["orders.parquet"]
    assert final.read_text() == "old content"


def test_a_cancelled_copy_keeps_the_old_file(bench, fakes, tmp_path):
    copy, final = parquet(tmp_path)
    final.parent.mkdir(parents=True)
    final.write_text("old content")
    bench.make("SELECT i FROM range(1000000000000) r(i)", as_view=True)
    bench.sink(fakes.Sink(copy))
    control, caught = fakes.Control(), []

    def run():
        try:
            bench.drain(control=control)
        except Exception as error:  # noqa: BLE001
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    control.cancel()
    thread.join(5)
    assert [type(e) for e in caught] == [Cancelled]
    assert [p.name for p in final.parent.iterdir()] == ["orders.parquet"]
    assert final.read_text() == "old content"


def test_a_folder_that_cannot_be_made_is_told(bench, fakes, tmp_path):
    (tmp_path / "out").write_text("a file in the way")
    copy, _ = parquet(tmp_path)
    bench.make("SELECT 1 AS a")
    bench.sink(fakes.Sink(copy))
    with pytest.raises(ConnectorError, match=r"mart\.orders"):
        bench.drain()


# --- native target --------------------------------------------------------------------------------------------------


def test_a_missing_target_and_its_schema_are_made(bench, fakes, tmp_path):
    bench.make("SELECT 1::hugeint AS id, 'x'::enum('x', 'y') AS e, [1.5::decimal(9,2)] AS l, 'O''Neil' AS \"Na\"\"me\"")
    bench.sink(fakes.Sink(table(tmp_path, 'or"ders', "shop")))
    bench.drain(load_mode="program")
    assert bench.ask('SELECT * FROM mart.shop."or""ders"') == [
        (1, "x", [bench.ask("SELECT 1.5::decimal(9,2)")[0][0]], "O'Neil")
    ]


def test_append_replace_and_merge_with_the_cores_strategies(bench, fakes, tmp_path):
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v(id, t)")
    bench.drain(load_mode="program")
    assert bench.drain(load_mode="program").rows_written == 2
    assert bench.ask("SELECT count(*) FROM mart.orders") == [(4,)]
    bench.drain(load_mode="program", strategy="replace")
    bench.make("SELECT * FROM (VALUES (2, 'old'), (3, 'c'), (2, 'new')) v(id, t)", as_view=True)
    result = bench.drain(load_mode="program", strategy="merge", keys=("id",))
    assert bench.ask("SELECT id, t FROM mart.orders ORDER BY id") == [(1, "a"), (2, "new"), (3, "c")]
    assert (result.rows_staged, result.rows_written) == (3, 2)
    assert [(w.code, dict(w.fields)) for w in result.warnings] == [("PZ0522", {"duplicateGroups": 1, "extraRows": 1})]


def test_null_in_a_merge_key_fails_before_the_target_is_touched(bench, fakes, tmp_path):
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT NULL::int AS id")
    with pytest.raises(PzError) as caught:
        bench.drain(load_mode="program", strategy="merge", keys=("id",))
    assert caught.value.code == "PZ0521"
    assert not (tmp_path / "mart.duckdb").exists()


def test_a_program_that_fails_half_way_changes_nothing(bench, fakes, tmp_path):
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT 1 AS id")
    bench.drain(load_mode="program")
    bench.host.strategies["odd"] = fakes.Strategy(("DELETE FROM {target}", "INSERT INTO {target} SELECT error('no')"))
    with pytest.raises(PzError):
        bench.drain(load_mode="program", strategy="odd")
    assert bench.ask("SELECT * FROM mart.orders") == [(1,)]


@pytest.mark.parametrize("view", [True, False])
def test_rows_of_a_view_are_made_once_and_in_order(bench, fakes, tmp_path, view):
    bench.ask("CREATE SEQUENCE pz_run.main.s")
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT nextval('pz_run.main.s') AS n, i AS id FROM range(300000) r(i)", as_view=view)
    twice = fakes.Strategy(
        ("INSERT INTO {target} ({names}) SELECT {names} FROM {staged} ORDER BY {order}",),
        (Probe("PZ0522", "SELECT 0", "warning", "x"),),
    )  # fmt: skip
    bench.host.strategies["twice"] = twice
    assert bench.drain(load_mode="program", strategy="twice").rows_written == 300000
    assert bench.ask("SELECT min(n), max(n), count(*) FILTER (WHERE id <> rowid) FROM mart.orders") == [(1, 300000, 0)]


@pytest.mark.parametrize("nothing", ["{staged} WHERE {order} < 0", "staging.nothing"])
def test_an_insert_of_nothing_before_a_large_one_loses_no_row(bench, fakes, tmp_path, nothing):
    bench.make("SELECT 1::bigint AS id WHERE false", "nothing")
    bench.make("SELECT i AS id FROM range(300000) r(i)")
    bench.sink(fakes.Sink(table(tmp_path)))
    program = (
        f"INSERT INTO {{target}} SELECT {{names}} FROM {nothing}",
        "INSERT INTO {target} SELECT {names} FROM {staged}",
    )
    bench.host.strategies["two"] = fakes.Strategy(program, keyed=True)
    assert bench.drain(load_mode="program", strategy="two").rows_written == 300000
    assert bench.ask("SELECT count(*), count(DISTINCT id) FROM mart.orders") == [(300000, 300000)]
    assert bench.ask("SELECT current_setting('preserve_insertion_order')") == [(True,)]


def test_a_strategy_that_loses_rows_is_found_out(bench, fakes, tmp_path):
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT i AS id FROM range(10) r(i)")
    bench.host.strategies["lossy"] = fakes.Strategy(("INSERT INTO {target} SELECT {names} FROM {staged} WHERE id < 9",))
    with pytest.raises(PzError) as caught:
        bench.drain(load_mode="program", strategy="lossy")
    assert caught.value.code == "PZ0811" and "10" in caught.value.message and "9" in caught.value.message
    assert bench.ask("SELECT count(*) FROM duckdb_tables() WHERE database_name = 'mart'") == [(0,)]


def test_loads_into_one_catalog_at_once_do_not_conflict(bench, fakes, tmp_path):
    for n in range(6):
        bench.sink(fakes.Sink(table(tmp_path, f"t{n % 3}", "fresh")), f"c{n}")
    bench.make("SELECT i FROM range(20000) r(i)")
    errors: list[BaseException] = []

    def one(n: int) -> None:
        try:
            bench.drain(load_mode="program", connection=f"c{n}", control=fakes.Control())
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert bench.ask("SELECT (SELECT count(*) FROM mart.fresh.t0), (SELECT count(*) FROM mart.fresh.t2)") == [
        (40000, 40000)
    ]


def test_schema_policies(bench, fakes, tmp_path):
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT 1::int AS id")
    bench.drain(load_mode="program")
    bench.make("SELECT 5000000000::bigint AS ID, 'x' AS extra")
    with pytest.raises(PzError) as caught:
        bench.drain(load_mode="program")
    assert caught.value.code == "PZ0804" and "extra" in caught.value.message
    bench.drain(load_mode="program", schema_policy="evolve")
    assert bench.ask("SELECT id, extra FROM mart.orders ORDER BY id") == [(1, None), (5000000000, "x")]
    bench.make("SELECT 2::smallint AS id, 7 AS unknown")
    bench.drain(load_mode="program", schema_policy="ignore")
    assert bench.ask("SELECT count(*), max(id) FROM mart.orders") == [(3, 5000000000)]


def test_replace_under_evolve_takes_the_batchs_shape(bench, fakes, tmp_path):
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT 1::bigint AS id, 'x' AS gone")
    bench.drain(load_mode="program", strategy="replace")
    bench.make("SELECT 'text' AS id, 2 AS n")
    bench.drain(load_mode="program", strategy="replace", schema_policy="evolve")
    assert bench.ask("SELECT * FROM mart.orders") == [("text", 2)]
    with pytest.raises(PzError, match="PZ0804"):
        bench.make("SELECT 'text' AS id, 2::double AS n")
        bench.drain(load_mode="program", strategy="replace")


def test_a_column_with_a_default_need_not_be_given(bench, fakes, tmp_path):
    bench.ask(f"ATTACH '{tmp_path}/mart.duckdb' AS mart")
    bench.ask("CREATE TABLE mart.orders (id BIGINT, n INT NOT NULL DEFAULT 7)")
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT 1::bigint AS id")
    bench.drain(load_mode="program")
    assert bench.ask("SELECT * FROM mart.orders") == [(1, 7)]


def test_a_key_that_the_target_refuses_is_told_without_its_value(bench, fakes, tmp_path):
    bench.ask(f"ATTACH '{tmp_path}/mart.duckdb' AS mart")
    bench.ask("CREATE TABLE mart.orders (id VARCHAR PRIMARY KEY)")
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT unnest(['hunter2', 'hunter2']) AS id")
    with pytest.raises(ConnectorError) as caught:
        bench.drain(load_mode="program")
    assert "hunter2" not in str(caught.value) and not caught.value.transient


def test_a_value_that_does_not_fit_is_named_by_column_and_row(bench, fakes, tmp_path):
    bench.ask(f"ATTACH '{tmp_path}/mart.duckdb' AS mart")
    bench.ask("CREATE TABLE mart.orders (id BIGINT, n TINYINT)")
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT i AS id, i + 120 AS n FROM range(20) r(i)")
    from pz_core.contract.load import Reconciled
    from pz_core.engines.duckdb import drain_table
    from pz_core.values import Column

    original = drain_table.fit
    drain_table.fit = lambda *a: (Reconciled(False, (), (), (Column("id", "BIGINT"), Column("n", "TINYINT"))), False)
    try:
        with pytest.raises(PzError) as caught:
            bench.drain(load_mode="program")
    finally:
        drain_table.fit = original
    assert caught.value.code == "PZ0812"
    assert all(w in caught.value.message for w in ("'n'", "BIGINT", "TINYINT", "12 values", "row 9"))


def test_rewriting_files_is_refused_for_now(bench, fakes):
    bench.sink(fakes.Sink())
    bench.make("SELECT 1 AS id")
    with pytest.raises(PzError, match="PZ0324"):
        bench.drain(load_mode="rewrite", strategy="merge", keys=("id",))


# --- sessions -------------------------------------------------------------------------------------------------------


def test_batches_then_one_commit(bench, fakes):
    session = fakes.Session()
    sink = bench.sink(fakes.Sink(session=session))
    bench.make("SELECT i, i % 2 = 0 AS even, {'b': true, 'l': [false, NULL]} AS s FROM range(300000) r(i)")
    control = fakes.Control()
    control.attempt = 3
    result = bench.drain("universal", control=control)
    assert session.calls == ["write"] * len(session.batches) + ["commit"]
    assert (result.rows_staged, result.rows_written, result.tier) == (300000, 300000, "universal")
    assert max(b.num_rows for b in session.batches) <= 122_880
    assert sink.begun[0][0].attempt == 3 and sink.begun[0][0].run_id == "r1"
    first = session.batches[0]
    assert [str(t) for t in first.schema.types[:2]] == ["int64", "bool"]
    assert first.slice(0, 2).to_pylist() == [
        {"i": 0, "even": True, "s": {"b": True, "l": [False, None]}},
        {"i": 1, "even": False, "s": {"b": True, "l": [False, None]}},
    ]
    assert [v for b in session.batches for v in b.column(0).to_pylist()] == list(range(300000))


def test_batches_keep_to_the_size_asked_for(fakes, tmp_path):
    bench = fakes.Bench(tmp_path, batch_bytes=1_048_576)
    session = fakes.Session()
    bench.sink(fakes.Sink(session=session))
    bench.make("SELECT repeat('x', 10000) AS t FROM range(2000)")
    bench.drain("universal")
    assert max(b.nbytes for b in session.batches) < 3 * 1_048_576
    assert sum(b.num_rows for b in session.batches) == 2000
    bench.engine.close()


def test_zero_rows_still_begin_and_commit(bench, fakes):
    session = fakes.Session()
    sink = bench.sink(fakes.Sink(session=session))
    bench.make("SELECT 1::hugeint AS a WHERE false")
    assert bench.drain("universal").rows_written == 0
    assert session.calls == ["commit"]
    assert [(c.name, c.type) for c in sink.begun[0][1]] == [("a", "HUGEINT")]


def test_a_failed_write_aborts_once_and_an_abort_error_does_not_hide_it(bench, fakes):
    session = fakes.Session(fail_at=1, fail_abort=True)
    bench.sink(fakes.Sink(session=session))
    bench.make("SELECT i FROM range(400000) r(i)")
    with pytest.raises(PzError, match="RuntimeError") as caught:
        bench.drain("universal")
    assert "the pipe broke" in str(caught.value.cause)
    assert "the pipe broke" not in str(caught.value)  # words of a foreign exception may hold a value
    assert session.calls == ["write", "write", "abort"]


def test_nothing_is_aborted_after_a_commit_was_tried(bench, fakes):
    session = fakes.Session(fail_commit=True)
    sink = bench.sink(fakes.Sink(session=session))
    bench.make("SELECT 1 AS a")
    with pytest.raises(PzError, match="RuntimeError") as caught:
        bench.drain("universal")
    assert "no answer to the commit" in str(caught.value.cause)
    assert session.calls == ["write", "commit"] and sink.closed == 1


def test_a_receipt_that_disagrees_is_found_out(bench, fakes):
    bench.sink(fakes.Sink(session=fakes.Session(lose=1)))
    bench.make("SELECT i FROM range(5) r(i)")
    with pytest.raises(PzError) as caught:
        bench.drain("universal")
    assert caught.value.code == "PZ0811" and "staged 5" in caught.value.message and "written 4" in caught.value.message


def test_cancelled_between_batches_aborts(bench, fakes):
    session, control = fakes.Session(), fakes.Control()
    write = session.write

    def write_and_cancel(batch):
        write(batch)
        control.cancel()

    session.write = write_and_cancel
    bench.sink(fakes.Sink(session=session))
    bench.make("SELECT i FROM range(400000) r(i)")
    with pytest.raises(Cancelled):
        bench.drain("universal", control=control)
    assert session.calls == ["write", "abort"]


def test_a_view_that_fails_while_it_is_streamed_aborts_and_is_the_pipelines_fault(bench, fakes):
    session = fakes.Session()
    bench.sink(fakes.Sink(session=session))
    bench.make(
        "SELECT CASE WHEN i = 490000 THEN CAST('x' || i AS INT) ELSE i END AS i FROM range(500000) r(i)", as_view=True
    )
    with pytest.raises(PzError) as caught:
        bench.drain("universal")
    assert caught.value.code == "PZ0501" and "LINE" not in caught.value.message
    assert session.calls[-1] == "abort"


def test_a_merge_through_an_sql_session(bench, fakes):
    con = duckdb.connect()
    con.execute("CREATE TABLE goal (id INTEGER, t VARCHAR)")
    con.execute("INSERT INTO goal VALUES (1, 'a'), (2, 'b')")
    made = []

    def begin():
        made.append(fakes.DuckSqlSession(con))
        return made[-1]

    bench.sink(fakes.Sink(session=begin))
    bench.make("SELECT * FROM (VALUES (2, 'old'), (3, 'c'), (2, 'new')) v(id, t)")
    result = bench.drain("universal", load_mode="program", strategy="merge", keys=("id",))
    assert con.execute("SELECT * FROM goal ORDER BY id").fetchall() == [(1, "a"), (2, "new"), (3, "c")]
    assert made[0].calls == ["write", "UPDATE", "INSERT", "commit"]
    assert [w.code for w in result.warnings] == ["PZ0522"]
    bench.make("SELECT NULL::int AS id, 'x' AS t")
    with pytest.raises(PzError, match="PZ0521"):
        bench.drain("universal", load_mode="program", strategy="merge", keys=("id",))
    assert len(made) == 1  # no session was opened
    bench.make("SELECT 1.5::double AS id, 'x' AS t")
    with pytest.raises(PzError, match="PZ0804"):
        bench.drain("universal", load_mode="program", strategy="append")
    assert made[1].calls == ["abort"]


def test_an_sql_session_creates_what_is_missing(bench, fakes):
    con = duckdb.connect()
    bench.sink(fakes.Sink(session=lambda: fakes.DuckSqlSession(con)))
    bench.make("SELECT 170141183460469231731687303715884105727 AS id, true AS b")
    bench.drain("universal", load_mode="program")
    assert con.execute("SELECT * FROM goal").fetchall() == [(170141183460469231731687303715884105727, True)]
    assert con.execute("SELECT typeof(id), typeof(b) FROM goal").fetchall() == [("HUGEINT", "BOOLEAN")]


def test_a_program_needs_an_sql_session(bench, fakes):
    session = fakes.Session()
    bench.sink(fakes.Sink(session=session))
    bench.make("SELECT 1 AS id")
    with pytest.raises(PzError, match="PZ0324"):
        bench.drain("universal", load_mode="program", strategy="merge", keys=("id",))
    assert session.calls == ["abort"]


def test_a_program_is_said_in_another_dialect():
    from pz_core.engines.duckdb.dialect import translate

    made = translate(
        ('CREATE TABLE "a"."b" ("x" HUGEINT, "y" UBIGINT, "z" TIMESTAMP WITH TIME ZONE, "s" VARCHAR)',), "postgres"
    )
    assert made == ('CREATE TABLE "a"."b" ("x" DECIMAL(39, 0), "y" DECIMAL(20, 0), "z" TIMESTAMPTZ, "s" TEXT)',)
    assert translate(("SELECT 1",), "duckdb") == ("SELECT 1",)


def test_errors_of_probes_are_told_together(bench, fakes, tmp_path):
    bench.sink(fakes.Sink(table(tmp_path)))
    bench.make("SELECT 1 AS id")
    probes = (
        Probe("PZ0806", "SELECT 2, 'k'", "error", "{0} rows are sentinels of {1}", "drop them"),
        Probe("PZ0521", "SELECT 3", "error", "{0} NULL keys"),
        Probe("PZ0522", "SELECT 0, 9", "warning", "quiet"),
    )
    bench.host.strategies["asking"] = fakes.Strategy((), probes)
    with pytest.raises(PzError) as caught:
        bench.drain(load_mode="program", strategy="asking")
    assert caught.value.code == "PZ0806" and caught.value.hint == "drop them"
    assert caught.value.message == "2 rows are sentinels of k; PZ0521: 3 NULL keys"
