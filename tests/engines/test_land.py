from __future__ import annotations

import threading
import time

import duckdb
import pyarrow as pa
import pytest

from pz_core.contract.connector import ConnectorError, CursorBounds, NativeScan, Setup
from pz_core.contract.engine import Cancelled
from pz_core.engines.duckdb.channel import Channel
from pz_core.errors import PzError

EVERY_TYPE = """
SELECT 170141183460469231731687303715884105727::hugeint AS h, 340282366920938463463374607431768211455::uhugeint AS uh,
  '5b9c9e4e-0f3e-4d6b-9d2a-0c7e7f5a1b2c'::uuid AS u, '{"a": 1}'::json AS j,
  timestamptz '2020-01-01 00:00:00.123456+02' AS tz, 1.234567891::decimal(38,9) AS d, 12.5::decimal(4,1) AS d4,
  {'a': 1, 'b': [1, 2], 'c': 'x'::enum('x', 'z')} AS st, [1, 2, NULL] AS l, map {'x': 1} AS m,
  time '12:34:56.789012' AS ti, '12:00:00+02'::timetz AS tt, interval '1 month 2 days 3.5 seconds' AS iv,
  'ab\\x00'::blob AS b, 'x'::enum('x', 'y') AS e, '101'::bit AS bt, [1, 2, 3]::int[3] AS arr, union_value(k := 1) AS un,
  200::utinyint AS ut, 18446744073709551615::ubigint AS ub, timestamp_s '2020-01-01' AS ts_s,
  timestamp_ms '2020-01-01 00:00:00.123' AS tms, timestamp_ns '2020-01-01 00:00:00.123456789' AS tns,
  date 'infinity' AS di, timestamp '-infinity' AS tinf, 'nan'::double AS nn, '-inf'::double AS ninf, 1.5::float AS f,
  true AS bo, '24:00:00'::time AS t24, 12345678901234567890123456789::bignum AS vi,
  [{'h': 1::hugeint, 'o': true}] AS nest, '' AS empty, 'a' || chr(0) || 'b' AS nul
UNION ALL BY NAME SELECT NULL::hugeint AS h
"""


def numbers(count: int, start: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(range(start, start + count), pa.int64())})


# --- native ---------------------------------------------------------------------------------------------------------


def test_a_native_scan_lands_rows_and_describes_columns(bench, fakes):
    source = bench.source(fakes.Source(scan=NativeScan("SELECT i AS id, 'x' AS t FROM range(5) r(i)")))
    result = bench.land()
    assert (result.rows_read, result.rows_staged, result.tier) == (5, 5, "native")
    assert [(c.name, c.type) for c in result.columns] == [("id", "BIGINT"), ("t", "VARCHAR")]
    assert source.closed == 1


def test_a_connector_that_declines_at_run_time_is_streamed(bench, fakes):
    source = bench.source(fakes.Source(scan=None, parts=[fakes.batches("SELECT 1 AS a")]))
    assert bench.land("native").tier == "universal"
    assert len(source.asked) == 1


def test_a_failed_scan_leaves_nothing(bench, fakes):
    bench.source(
        fakes.Source(scan=NativeScan("SELECT CASE WHEN i = 900 THEN error('no') ELSE i END FROM range(1000) r(i)"))
    )
    with pytest.raises(ConnectorError):
        bench.land()
    assert bench.relations() == []


def test_setup_runs_once_a_run_even_when_tasks_meet_and_again_after_a_failure(bench, fakes):
    bench.ask("CREATE SEQUENCE pz_run.main.times")
    once = Setup("CREATE TABLE pz_run.main.mark AS SELECT nextval('pz_run.main.times') AS n", "attach")
    scan = NativeScan("SELECT * FROM pz_run.main.mark", setup=(once,))
    bench.source(fakes.Source(scan=scan))
    errors: list[BaseException] = []

    def one(name: str) -> None:
        try:
            bench.land(relation=name, control=fakes.Control())
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=one, args=(f"t{i}",)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    again = Setup("CREATE TABLE pz_run.main.second AS SELECT * FROM pz_run.main.later", "attach")
    bench.source(fakes.Source(scan=NativeScan("SELECT 1", setup=(again,))))
    with pytest.raises(ConnectorError):
        bench.land()
    bench.ask("CREATE TABLE pz_run.main.later AS SELECT 1")
    bench.land()


def test_failing_setup_names_its_kind_and_never_its_text(bench, fakes):
    setup = Setup("ATTACH 'host=nowhere password=hunter2' AS p (TYPE nonsense)", "attach")
    bench.source(fakes.Source(scan=NativeScan("SELECT 1", setup=(setup,))))
    with pytest.raises(ConnectorError) as caught:
        bench.land()
    assert caught.value.code == "PZ0311"
    assert "attach" in caught.value.message
    assert "hunter2" not in str(caught.value) and "ATTACH" not in str(caught.value)


def test_a_plain_set_of_a_setup_holds_for_every_task(bench, fakes):
    setup = Setup("SET default_null_order = 'nulls_first'", "setting")
    scan = NativeScan("SELECT current_setting('default_null_order') AS s", setup=(setup,))
    bench.source(fakes.Source(scan=scan))
    bench.land(relation="a")
    bench.land(relation="b")
    assert bench.ask("SELECT s FROM staging.a UNION ALL SELECT s FROM staging.b") == [("NULLS_FIRST",)] * 2


def test_rejects_fail_the_node_and_leave_nothing(bench, fakes):
    bench.source(fakes.Source(scan=NativeScan("SELECT 1 AS a", rejects="SELECT 2, 'column a, line 7: BIGINT'")))
    with pytest.raises(ConnectorError) as caught:
        bench.land()
    assert caught.value.code == "PZ0812" and "column a, line 7" in caught.value.message
    assert not caught.value.transient
    assert bench.relations() == []


def test_rejects_of_a_reader_are_seen_by_the_probe(bench, fakes, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\nx,3\n")
    query = f"SELECT * FROM read_csv('{tmp_path}/a.csv', columns = {{'a': 'INT', 'b': 'INT'}}, store_rejects = true)"
    scan = NativeScan(query, rejects="SELECT count(*), 'column ' || min(column_name) FROM reject_errors")
    bench.source(fakes.Source(scan=scan))
    with pytest.raises(ConnectorError, match="column a"):
        bench.land()


def test_a_value_of_the_data_never_stands_in_the_error(bench, fakes, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\ntop-secret,3\n")
    bench.source(
        fakes.Source(
            scan=NativeScan(f"SELECT * FROM read_csv('{tmp_path}/a.csv', columns = {{'a': 'INT', 'b': 'INT'}})")
        )
    )
    with pytest.raises(ConnectorError) as caught:
        bench.land()
    assert "top-secret" not in str(caught.value)
    assert '"a"' in caught.value.message


# --- bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["native", "universal"])
def test_rows_outside_the_bounds_are_trimmed_and_null_cursors_stay(bench, fakes, tier):
    sql = "SELECT CASE WHEN i < 10 THEN i END AS id FROM range(11) r(i)"
    bench.source(fakes.Source(scan=NativeScan(sql), parts=[fakes.batches(sql)]))
    result = bench.land(tier, bounds=CursorBounds("ID", "bigint", "3", False, "7", True))
    assert (result.rows_read, result.rows_staged, result.trimmed) == (11, 5, 6)
    assert bench.ask("SELECT id FROM staging.src ORDER BY id NULLS LAST") == [(4,), (5,), (6,), (7,), (None,)]


def test_inclusive_floor_and_exclusive_ceiling(bench, fakes):
    bench.source(fakes.Source(scan=NativeScan("SELECT i AS id FROM range(10) r(i)")))
    bench.land(bounds=CursorBounds("id", "int", "3", True, "7", False))
    assert bench.ask("SELECT min(id), max(id) FROM staging.src") == [(3, 6)]


@pytest.mark.parametrize(
    ("word", "values", "lower", "kept"),
    [
        ("decimal", "1.001::decimal(10,3), 1.01::decimal(10,3)", "1.005", 1),
        ("decimal", "1.00::decimal(10,2), 1.01::decimal(10,2)", "1.005", 1),
        ("date", "date '2026-01-01', date '2026-01-02'", "2026-01-01", 1),
        (
            "timestamp",
            "timestamp '2026-01-01 00:00:00.000001', timestamp '2026-01-01'",
            "2026-01-01T00:00:00.000000",
            1,
        ),
        ("timestamp", "date '2026-01-01', date '2026-01-02'", "2026-01-01T12:00:00.000000", 1),
        (
            "timestamptz",
            "timestamptz '2026-01-01 02:00:00+02', timestamptz '2026-01-01 00:00:01Z'",
            "2026-01-01T00:00:00.000000Z",
            1,
        ),
    ],
)
def test_bounds_compare_exactly_in_every_cursor_type(bench, fakes, word, values, lower, kept):
    bench.source(fakes.Source(scan=NativeScan(f"SELECT unnest([{values}]) AS c")))
    assert bench.land(bounds=CursorBounds("c", word, lower)).rows_staged == kept


def test_a_cursor_that_landed_as_text_is_refused_by_name(bench, fakes):
    bench.source(fakes.Source(scan=NativeScan("SELECT 'a' AS c")))
    with pytest.raises(PzError) as caught:
        bench.land(bounds=CursorBounds("c", "bigint", "3"))
    assert caught.value.code == "PZ0505"
    assert all(word in caught.value.message for word in ("'c'", "VARCHAR", "bigint", "shop.orders"))
    assert bench.relations() == []


# --- universal ------------------------------------------------------------------------------------------------------


def test_both_tiers_land_the_same_rows_and_types(bench, fakes):
    columns = tuple(duckdb.execute(f"DESCRIBE {EVERY_TYPE}").fetchall())
    from pz_core.values import Column

    declared = tuple(Column(c[0], c[1]) for c in columns)
    bench.source(fakes.Source(scan=NativeScan(EVERY_TYPE), parts=[fakes.batches(EVERY_TYPE)], columns=declared))
    native, universal = bench.land("native", relation="n"), bench.land("universal", relation="u")
    assert [(c.name, c.type) for c in native.columns] == [(c.name, c.type) for c in universal.columns]
    for column in native.columns:
        pair = f'SELECT CAST("{column.name}" AS VARCHAR) FROM staging.%s ORDER BY h NULLS LAST'
        assert bench.ask(pair % "n") == bench.ask(pair % "u"), column.name


def test_an_empty_read_gives_an_empty_typed_table(bench, fakes):
    bench.source(fakes.Source(parts=[fakes.batches("SELECT 1::hugeint AS h, true AS b WHERE false")]))
    result = bench.land("universal")
    assert result.rows_staged == 0
    assert [(c.name, c.type) for c in result.columns] == [("h", "HUGEINT"), ("b", "BOOLEAN")]


def test_all_rows_of_all_partitions_arrive_in_order_within_each(bench, fakes):
    def part(n):
        def read(_):
            for i in range(30):
                yield pa.record_batch({"p": [n] * 100, "i": list(range(i * 100, i * 100 + 100))})

        return read

    bench.source(fakes.Source(parts=[part(n) for n in range(7)]))
    result = bench.land("universal")
    assert result.rows_read == result.rows_staged == 21000
    assert result.stalls is not None
    steps = "SELECT i - lag(i) OVER (PARTITION BY p ORDER BY rowid) AS d FROM staging.src"
    unordered = f"SELECT count(*) FROM ({steps}) WHERE d <> 1"
    assert bench.ask(unordered) == [(0,)]


def test_empty_batches_before_large_ones_lose_no_row(bench, fakes):
    def read(_):
        for count in (0, 122_880, 0, 122_880, 10, 0, 122_880):
            yield numbers(count)

    bench.source(fakes.Source(parts=[read]))
    assert bench.land("universal").rows_staged == 3 * 122_880 + 10
    assert bench.ask("SELECT count(*) FROM staging.src") == [(3 * 122_880 + 10,)]


def test_at_most_four_partitions_are_read_at_once(bench, fakes):
    running, most, lock = [0], [0], threading.Lock()

    def read(_):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        yield numbers(1)
        with lock:
            running[0] -= 1

    bench.source(fakes.Source(parts=[read] * 12))
    bench.land("universal")
    assert 1 < most[0] <= 4


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (pa.record_batch({"id": [1], "more": [2]}), ["2 columns", "1"]),
        (pa.record_batch({"id": ["text"]}), ["column 1", "'id'", "string", "int64"]),
        (pa.record_batch({"id": pa.array([1], pa.int32())}), ["int32", "int64"]),
    ],
)
def test_a_batch_of_another_shape_fails_and_nothing_is_staged(bench, fakes, other, words):
    def read(_):
        yield numbers(10)
        yield other

    bench.source(fakes.Source(parts=[read]))
    with pytest.raises(ConnectorError) as caught:
        bench.land("universal")
    assert all(w in caught.value.message for w in words)
    assert bench.relations() == []


def test_names_and_nullability_of_later_batches_do_not_matter(bench, fakes):
    def read(_):
        yield numbers(10)
        yield pa.RecordBatch.from_arrays(
            [pa.array([7], pa.int64())], schema=pa.schema([pa.field("ID2", pa.int64(), False)])
        )

    bench.source(fakes.Source(parts=[read]))
    assert bench.land("universal").rows_staged == 11


def test_the_first_failing_partition_stops_its_siblings_and_is_the_one_told(bench, fakes):
    ended = threading.Event()

    def endless(_):
        try:
            while True:
                yield numbers(1000)
        finally:
            ended.set()

    def failing(_):
        yield numbers(1)
        raise ConnectorError("part two broke", transient=True, retry_after=3)

    bench.source(fakes.Source(parts=[endless, failing, endless]))
    with pytest.raises(ConnectorError, match="part two broke") as caught:
        bench.land("universal")
    assert caught.value.transient and caught.value.retry_after == 3
    assert ended.wait(1)
    assert bench.relations() == []


def test_a_fault_of_the_ingest_releases_readers_that_wait(bench, fakes):
    source = fakes.Source()

    def read(_):
        for i in range(1000):
            yield (
                pa.record_batch({"u": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([i])])})
                if i
                else numbers(1)
            )

    source.parts = [read] * 3
    bench.source(source)
    began = time.monotonic()
    with pytest.raises(ConnectorError):
        bench.land("universal")
    assert time.monotonic() - began < 2 and source.closed == 1


def test_a_reader_waits_when_four_batches_are_not_taken():
    channel, pulled = Channel(1), [0]

    def run():
        for _ in range(9):
            pulled[0] += 1
            channel.put(numbers(10))
        channel.finish()

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    assert pulled[0] == 5  # four wait, one is in hand
    assert [b.num_rows for b in channel.take(20, 1_000_000)] == [10, 10]
    time.sleep(0.05)
    assert pulled[0] == 7
    rows = 20
    while taken := channel.take(1_000_000, 1):
        rows += sum(b.num_rows for b in taken)
    thread.join(2)
    assert rows == 90 and channel.producer_wait > 0.1


def test_a_column_of_nothing_but_null_lands_in_both_tiers(bench, fakes):
    sql = "SELECT NULL AS n, [NULL] AS l, {'NULL': NULL, 'a': 1} AS s"
    read = [
        lambda _: iter([pa.record_batch({"n": pa.nulls(1), "l": pa.array([[None]]), "s": [{"NULL": None, "a": 1}]})])
    ]
    bench.source(fakes.Source(scan=NativeScan(sql), parts=read))
    native, universal = bench.land("native", relation="n").columns, bench.land("universal", relation="u").columns
    assert [c.type for c in native][:2] == [c.type for c in universal][:2] == ["INTEGER", "INTEGER[]"]
    assert bench.ask("SELECT n, l FROM staging.u") == [(None, [None])]


def test_progress_is_told_every_ten_batches(bench, fakes):
    def read(_):
        for i in range(25):
            yield numbers(122_880, i * 122_880)

    bench.source(fakes.Source(parts=[read]))
    assert bench.land("universal").rows_staged == 25 * 122_880
    assert bench.ask("SELECT count(*) FROM staging.src WHERE id <> rowid") == [(0,)]
    assert [s[2] for s in bench.control.seen] == [10, 20]
    assert bench.control.seen[0][0] == 10 * 122_880


def test_a_connector_that_raises_something_of_its_own_is_named_and_final(bench, fakes):
    def read(_):
        yield numbers(1)
        raise KeyError("page")

    bench.source(fakes.Source(parts=[read]))
    with pytest.raises(PzError) as caught:
        bench.land("universal")
    assert caught.value.code == "PZ0501" and "KeyError" in caught.value.message
    assert not getattr(caught.value, "transient", False)


def test_no_batch_at_all_is_a_fault(bench, fakes):
    bench.source(fakes.Source(parts=[lambda _: iter(())]))
    with pytest.raises(ConnectorError, match="no batch"):
        bench.land("universal")


# --- cancelling -----------------------------------------------------------------------------------------------------


def cancel_soon(fakes, call):
    control = fakes.Control()
    caught: list[BaseException] = []

    def run() -> None:
        try:
            call(control)
        except Exception as error:  # noqa: BLE001
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    began = time.monotonic()
    control.cancel()
    thread.join(5)
    assert not thread.is_alive() and time.monotonic() - began < 2
    assert len(caught) == 1
    assert isinstance(caught[0], Cancelled), caught
    assert control.interrupts == []


def test_a_running_scan_is_interrupted_and_leaves_nothing(bench, fakes):
    bench.source(fakes.Source(scan=NativeScan("SELECT sum(i) AS s FROM range(1000000000000) r(i)")))
    cancel_soon(fakes, lambda control: bench.land(control=control))
    assert bench.relations() == []


def test_a_stream_that_waits_for_its_connector_is_cancelled(bench, fakes):
    gate = threading.Event()

    def read(_):
        yield numbers(1)
        gate.wait(1)
        yield numbers(1)

    bench.source(fakes.Source(parts=[read]))
    cancel_soon(fakes, lambda control: bench.land("universal", control=control))
    gate.set()
    assert bench.relations() == []


def test_cancelling_one_task_leaves_another_alone(bench, fakes):
    bench.source(fakes.Source(scan=NativeScan("SELECT sum(i) AS s FROM range(1000000000000) r(i)")))
    other: list[object] = []

    def quiet() -> None:
        for i in range(20):
            other.append(
                bench.make("SELECT sum(i) AS s FROM range(2000000) r(i)", f"quiet{i}", control=fakes.Control())
            )

    thread = threading.Thread(target=quiet)
    thread.start()
    cancel_soon(fakes, lambda control: bench.land(control=control))
    thread.join(10)
    assert len(other) == 20


def test_cancelled_before_it_began_runs_nothing(bench, fakes):
    control = fakes.Control()
    control.cancelled.set()
    bench.source(fakes.Source(scan=NativeScan("SELECT 1 AS a")))
    with pytest.raises(Cancelled):
        bench.land(control=control)
    assert bench.relations() == []
