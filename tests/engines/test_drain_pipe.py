"""Rows that DuckDB writes into a session's pipe, and rows that pass straight from a scan into a sink."""

from __future__ import annotations

import threading

import duckdb
import pytest

from pz_core.contract.connector import (
    ConnectorError,
    NativeCopy,
    NativeScan,
    NativeStream,
    ReadSpec,
    Receipt,
    WriteSpec,
)
from pz_core.contract.engine import Cancelled, DrainTask, LandTask, MaterialiseTask, NodeRef, NotMoved
from pz_core.contract.refusals import trip
from pz_core.errors import PzError

WAY = NativeStream("a pipe")


class Piped:
    """A session whose pipe is a csv file; what is done to it is written down."""

    def __init__(self, path, *, declines=False, projection="*", fault=None, batches=()):
        self.path, self.declines, self.projection, self.fault = path, declines, projection, fault
        self.calls = []
        self.rows = 0
        self.batches = list(batches)

    def pipe(self):
        self.calls.append("pipe")
        if self.declines:
            return None
        return NativeCopy(str(self.path), "FORMAT csv", "pipe", projection=self.projection)

    def piped(self, rows):
        self.calls.append(f"piped {rows}")
        if self.fault is not None:
            raise self.fault
        self.rows = rows

    def write(self, batch):
        self.calls.append("write")
        self.rows += batch.num_rows

    def commit(self):
        self.calls.append("commit")
        return Receipt(self.rows)

    def abort(self):
        self.calls.append("abort")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.csv"


def test_the_pipe_takes_the_place_of_batches(bench, fakes, path):
    bench.make("SELECT i, i * 2 AS d FROM range(5) r(i)")
    session = Piped(path, projection="d, i")
    bench.sink(fakes.Sink(WAY, session))
    done = bench.drain()
    assert session.calls == ["pipe", "piped 5", "commit"]
    assert (done.rows_staged, done.rows_written, done.tier) == (5, 5, "native")
    assert path.read_text().split() == ["d,i", "0,0", "2,1", "4,2", "6,3", "8,4"]


def test_a_session_may_decline_and_a_universal_write_never_asks(bench, fakes, path):
    bench.make("SELECT i FROM range(5) r(i)")
    declining, other = Piped(path, declines=True), Piped(path)
    bench.sink(fakes.Sink(WAY, declining))
    assert bench.drain().tier == "universal"
    assert declining.calls == ["pipe", "write", "commit"]
    bench.sink(fakes.Sink(WAY, other))
    bench.drain("universal")
    assert other.calls == ["write", "commit"]


def test_a_guard_that_trips_is_followed_by_batches(bench, fakes, path):
    bench.make("SELECT i FROM range(5) r(i)")
    made = [Piped(path, projection=f"CASE WHEN i = 3 THEN {trip()} ELSE i END"), Piped(path)]
    sessions = iter(made)
    bench.sink(fakes.Sink(WAY, lambda: next(sessions)))
    assert bench.drain().rows_written == 5
    assert [session.calls for session in made] == [["pipe", "abort"], ["write", "commit"]]


def test_a_fault_of_the_session_is_told_before_duckdbs(bench, fakes, tmp_path):
    bench.make("SELECT i FROM range(5) r(i)")
    lost = ConnectorError("the line is dead", transient=True)
    session = Piped(tmp_path / "no" / "folder", fault=lost)
    bench.sink(fakes.Sink(WAY, session))
    with pytest.raises(ConnectorError, match="the line is dead"):
        bench.drain()
    assert session.calls == ["pipe", "piped None", "abort"]
    session = Piped(tmp_path / "no" / "folder")
    bench.sink(fakes.Sink(WAY, session))
    with pytest.raises(PzError):
        bench.drain()
    assert session.calls == ["pipe", "piped None", "abort"]


def test_a_row_that_cannot_be_made_is_the_pipelines_fault(bench, fakes, path):
    bench.make("SELECT CASE WHEN i = 400000 THEN error('no') ELSE i END AS i FROM range(500000) r(i)", as_view=True)
    session = Piped(path)
    bench.sink(fakes.Sink(WAY, session))
    with pytest.raises(PzError):
        bench.drain()
    assert session.calls == ["pipe", "piped None", "abort"]


def test_a_pipe_that_is_cancelled_is_aborted(bench, fakes, path):
    bench.make("SELECT i FROM range(1000000000000) r(i)", as_view=True)
    session = Piped(path)
    bench.sink(fakes.Sink(WAY, session))
    threading.Timer(0.3, bench.control.cancel).start()
    with pytest.raises(Cancelled):
        bench.drain()
    assert session.calls[-1] == "abort" and "commit" not in session.calls


# --- passing ---------------------------------------------------------------------------------------------------------


def tasks(select="SELECT * FROM staging.src", tier="native", **write):
    return (
        LandTask(NodeRef("1", "src"), "src", "shop", "fake", "native", ReadSpec("orders")),
        MaterialiseTask(NodeRef("2", "p"), "p", select, True),
        DrainTask(NodeRef("3", "mart.orders"), "p", "mart", "fake", tier, WriteSpec("orders", **write)),
    )


def catalogs(bench):
    return [row[0] for row in bench.ask("SELECT database_name FROM duckdb_databases() WHERE database_name LIKE 'pz_%'")]


def test_a_move_reads_reshapes_and_loads_in_one(bench, fakes, path):
    source = bench.source(fakes.Source(scan=NativeScan("SELECT i FROM range(5) r(i)")))
    session = Piped(path)
    sink = bench.sink(fakes.Sink(WAY, session))
    moved = bench.engine.move(*tasks("SELECT i + 1 AS j FROM staging.src"), bench.control)
    assert (moved.landed.rows_read, moved.landed.rows_staged, moved.drained.rows_written) == (5, 0, 5)
    assert [c.name for c in moved.landed.columns] == ["i"] and moved.made.rows is None
    assert path.read_text().split() == ["j", "1", "2", "3", "4", "5"]
    assert bench.relations() == [] and catalogs(bench) == ["pz_run"]
    assert (source.closed, sink.closed) == (1, 1)


@pytest.mark.parametrize(
    "scan",
    [
        None,
        NativeScan("SELECT 1 AS i", rejects="SELECT 0, NULL"),
        NativeScan("SELECT nothing FROM nowhere"),
        NativeScan("SELECT CASE WHEN i = 300000 THEN error('no') ELSE i END AS i FROM range(400000) r(i)"),
    ],
)
def test_what_cannot_be_moved_leaves_the_target_and_no_trace(bench, fakes, tmp_path, scan):
    source = bench.source(fakes.Source(scan=scan))
    final = tmp_path / "out" / "orders.parquet"
    aside = tmp_path / "out" / ".aside"
    copy = NativeCopy(str(aside), "FORMAT parquet", "copy", moves=())
    final.parent.mkdir()
    final.write_text("old")
    bench.sink(fakes.Sink(copy))
    with pytest.raises(NotMoved) as caught:
        bench.engine.move(*tasks(), bench.control)
    assert not caught.value.tried
    assert final.read_text() == "old" and not aside.exists()
    assert source.closed == 1 and bench.relations() == [] and catalogs(bench) == ["pz_run"]


def test_a_commit_that_was_tried_is_told_as_such(bench, fakes):
    bench.source(fakes.Source(scan=NativeScan("SELECT i FROM range(5) r(i)")))
    session = fakes.Session(fail_commit=True)
    bench.sink(fakes.Sink(session=session))
    with pytest.raises(NotMoved) as caught:
        bench.engine.move(*tasks(tier="universal"), bench.control)
    assert caught.value.tried and "commit" in session.calls and "abort" not in session.calls


def test_a_write_that_fails_before_is_not(bench, fakes):
    bench.source(fakes.Source(scan=NativeScan("SELECT i FROM range(5) r(i)")))
    session = fakes.Session(fail_at=0)
    bench.sink(fakes.Sink(session=session))
    with pytest.raises(NotMoved) as caught:
        bench.engine.move(*tasks(tier="universal"), bench.control)
    assert not caught.value.tried and session.calls == ["write", "abort"]


def test_a_sink_that_may_keep_a_part_is_not_moved_into(bench, fakes):
    bench.source(fakes.Source(scan=NativeScan("SELECT i FROM range(5) r(i)")))
    sink = fakes.Sink(session=fakes.Session())
    sink.abort_semantics = lambda: "keeps_confirmed"
    bench.sink(sink)
    with pytest.raises(NotMoved):
        bench.engine.move(*tasks(tier="universal"), bench.control)
    assert sink.begun == []


def test_a_move_that_is_cancelled_stops(bench, fakes, path):
    bench.source(fakes.Source(scan=NativeScan("SELECT i FROM range(1000000000000) r(i)")))
    session = Piped(path)
    bench.sink(fakes.Sink(WAY, session))
    threading.Timer(0.3, bench.control.cancel).start()
    with pytest.raises(Cancelled):
        bench.engine.move(*tasks(), bench.control)
    assert session.calls[-1] == "abort"
    assert catalogs(bench) == ["pz_run"]


def test_moves_at_once_do_not_meet(bench, fakes, tmp_path):
    bench.source(fakes.Source(scan=NativeScan("SELECT i FROM range(100000) r(i)")))
    made = [Piped(tmp_path / f"{n}.csv") for n in range(4)]
    for n, session in enumerate(made):
        bench.sink(fakes.Sink(WAY, session), f"mart{n}")
    land, make, load = tasks()
    failed = []

    def move(n):
        own = DrainTask(load.node, load.relation, f"mart{n}", load.connector, load.tier, load.write)
        try:
            bench.engine.move(land, make, own, bench.control)
        except Exception as error:  # noqa: BLE001 - it is judged below
            failed.append(error)

    threads = [threading.Thread(target=move, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for session in made:
        assert duckdb.execute(f"SELECT count(*), sum(i) FROM '{session.path}'").fetchall() == [(100000, 4999950000)]


def test_a_pipe_is_filled_in_one_thread_and_the_others_come_back(fakes, tmp_path):
    bench = fakes.Bench(tmp_path, threads=3)
    bench.make("SELECT i FROM range(2) r(i)")
    path = tmp_path / "rows.csv"
    bench.sink(fakes.Sink(WAY, Piped(path, projection="current_setting('threads') AS t")))
    bench.drain()
    assert path.read_text() == "t\n1\n1\n"
    assert bench.ask("SELECT current_setting('threads')") == [(3,)]


def test_what_begins_beside_a_pipe_has_all_threads_again(fakes, tmp_path):
    session = fakes.Bench(tmp_path, threads=3).engine._session
    threads = "SELECT current_setting('threads')"
    with session.task(fakes.Control()) as first:
        with session.in_one_thread():
            assert first.count(threads) == 1
            with session.task(fakes.Control()) as second:
                assert second.count(threads) == 3
                with session.in_one_thread():  # it is not alone
                    assert second.count(threads) == 3
        assert first.count(threads) == 3
        with pytest.raises(ZeroDivisionError), session.in_one_thread():
            raise ZeroDivisionError
        assert first.count(threads) == 3


def test_a_view_that_has_more_to_do_keeps_all_threads(fakes, tmp_path):
    bench = fakes.Bench(tmp_path, threads=3)
    bench.make("SELECT count(*) AS n FROM range(9) r(i)", as_view=True)
    path = tmp_path / "rows.csv"
    bench.sink(fakes.Sink(WAY, Piped(path, projection="current_setting('threads') AS t")))
    bench.drain()
    assert path.read_text() == "t\n3\n"
