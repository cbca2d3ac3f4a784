"""Rows of an earlier run's file in the file of this one, by the engine itself."""

from __future__ import annotations

import duckdb
import pytest

from pz_core.contract.connector import CursorBounds, ReadSpec
from pz_core.contract.engine import Cancelled, EngineSettings, LandTask, NodeRef, NotReusable, Reuse
from pz_core.engines.duckdb.engine import DuckDBEngine


class Control:
    attempt = 1
    cancelled = False

    def progress(self, rows, bytes, batches):
        pass

    def raise_if_cancelled(self):
        if self.cancelled:
            raise Cancelled

    def on_cancel(self, interrupt):
        return lambda: None


def fill(engine, sql):
    with engine._session.task(Control()) as work:
        work.run(sql)


def ask(engine, sql):
    with engine._session.task(Control()) as work:
        return work.run(sql).fetchall()


@pytest.fixture
def engine_at(tmp_path):
    made = []

    def open_(name):
        engine = DuckDBEngine(EngineSettings(str(tmp_path / f"{name}.duckdb"), str(tmp_path / "tmp"), threads=2), None)
        made.append(engine)
        return engine

    yield open_
    for engine in made:
        engine.close()


@pytest.fixture
def earlier(engine_at, tmp_path):
    """A file that no checkpoint has seen, as a run leaves it."""

    def make(sql):
        engine = engine_at("before")
        fill(engine, f"create table staging.src_a__t as {sql}")
        engine.close()
        assert (tmp_path / "before.duckdb.wal").stat().st_size > 0
        return str(tmp_path / "before.duckdb")

    return make


def task(path, rows, cursor=None):
    wanted = CursorBounds(cursor) if cursor else None
    reuse = Reuse(path, "src_a__t", rows)
    return LandTask(NodeRef("id-1", "src_a__t"), "src_a__t", "a", "none", "native", ReadSpec("t", {}), wanted, reuse)


def test_values_types_and_order_are_kept(earlier, engine_at):
    odd = (
        "select i as id, 'x'::enum('x', 'y') as e, {'a': [i, null]} as s, 123456789012345678901234567890::hugeint as h,"
        " timestamptz '2026-01-01 00:00:00.000001+02' as z, 'nan'::double as d, ''::varchar as v"
        " from range(5000, 0, -1) r(i)"
    )
    path = earlier(odd)
    now = engine_at("now")
    landed = now.land(task(path, 5000, "id"), Control())
    assert landed.reused and landed.rows_staged == 5000 and landed.cursor.high == "5000"
    want = duckdb.sql(odd)
    assert [(c.name, c.type) for c in landed.columns] == list(zip(want.columns, map(str, want.types), strict=True))
    assert (
        ask(now, f"(from staging.src_a__t except all ({odd})) union all (({odd}) except all from staging.src_a__t)")
        == []
    )
    assert ask(now, "select id from staging.src_a__t limit 3") == [(5000,), (4999,), (4998,)]


@pytest.mark.parametrize("rows", [2, 4])
def test_another_number_of_rows_leaves_nothing(earlier, engine_at, rows):
    path, now = earlier("select 1 as id from range(3)"), engine_at("now")
    with pytest.raises(NotReusable, match=f"{rows} rows were recorded and 3 are there"):
        now.land(task(path, rows), Control())
    assert ask(now, "select table_name from duckdb_tables() where schema_name = 'staging'") == []
    assert ask(now, "select count(*) from duckdb_databases() where database_name like 'pz_earlier%'") == [(0,)]


def test_no_file_no_table_no_cursor_and_no_database(earlier, engine_at, tmp_path):
    path, now = earlier("select 'a' as id"), engine_at("now")
    (tmp_path / "junk.duckdb").write_text("no database at all" * 500)
    for asked in (
        task(str(tmp_path / "gone.duckdb"), 1),
        task(str(tmp_path / "junk.duckdb"), 1),
        task(path, 1, "id"),
        task(path, 1, "other"),
    ):
        with pytest.raises(NotReusable):
            now.land(asked, Control())
    assert now.land(task(path, 1), Control()).reused


def test_being_told_to_stop_is_no_reason_to_read_the_source(earlier, engine_at):
    path, now = earlier("select 1 as id"), engine_at("now")
    control = Control()
    control.cancelled = True
    with pytest.raises(Cancelled):
        now.land(task(path, 1), control)
