"""Native copies that the sink itself brings to their place."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest

from pz_core.contract.connector import ConnectorError, NativeCopy
from pz_core.contract.engine import Cancelled
from pz_core.errors import PzError


class Delivery:
    """A sink that keeps what it was handed."""

    def __init__(self, path: Path, fault: Exception | None = None, waits: bool = False) -> None:
        self.copy = NativeCopy(str(path), "FORMAT parquet", "copy and delivery")
        self.fault, self.waits = fault, waits
        self.rows: list[tuple] = []  # type: ignore[type-arg]
        self.asked, self.stopped, self.reached, self.closed = 0, threading.Event(), threading.Event(), 0

    def native_write(self, spec):
        return self.copy

    def deliver(self, spec, copy) -> None:
        self.asked += 1
        self.reached.set()
        if self.waits and self.stopped.wait(5):
            raise ConnectorError("stopped half way")
        if self.fault is not None:
            raise self.fault
        self.rows = duckdb.execute(f"SELECT * FROM '{copy.path}' ORDER BY ALL").fetchall()

    def stop(self) -> None:
        self.stopped.set()

    def abort_semantics(self) -> str:
        return "discards_all"

    def close(self) -> None:
        self.closed += 1


def test_a_finished_file_is_delivered_and_then_gone_from_here(bench, tmp_path) -> None:
    bench.make("SELECT i FROM range(3) r(i)")
    sink = bench.sink(Delivery(tmp_path / "aside" / "rows.parquet"))
    result = bench.drain(strategy="replace", load_mode="swap")
    assert (result.rows_written, result.tier, sink.rows) == (3, "native", [(0,), (1,), (2,)])
    assert list((tmp_path / "aside").iterdir()) == [] and sink.closed == 1


def test_a_copy_that_fails_is_never_delivered(bench, tmp_path) -> None:
    bench.make("SELECT CASE WHEN i = 9000 THEN error('boom') ELSE i END AS i FROM range(10_000) r(i)", as_view=True)
    sink = bench.sink(Delivery(tmp_path / "rows.parquet"))
    with pytest.raises(PzError):
        bench.drain(strategy="replace", load_mode="swap")
    assert sink.asked == 0 and not (tmp_path / "rows.parquet").exists()


@pytest.mark.parametrize("fault", [ConnectorError("no", transient=True), RuntimeError("hunter2")])
def test_a_failed_delivery_is_told_and_leaves_no_file(bench, tmp_path, fault) -> None:
    bench.make("SELECT 1 AS i")
    sink = bench.sink(Delivery(tmp_path / "rows.parquet", fault))
    with pytest.raises(PzError) as caught:
        bench.drain(strategy="replace", load_mode="swap")
    assert "hunter2" not in str(caught.value)
    assert getattr(caught.value, "transient", False) is isinstance(fault, ConnectorError)
    assert not (tmp_path / "rows.parquet").exists() and sink.closed == 1


def test_cancelling_stops_a_delivery_that_is_under_way(bench, fakes, tmp_path) -> None:
    bench.make("SELECT 1 AS i")
    sink = bench.sink(Delivery(tmp_path / "rows.parquet", waits=True))
    control = fakes.Control()

    def cancel() -> None:
        sink.reached.wait(5)
        control.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Cancelled):
        bench.drain(strategy="replace", load_mode="swap", control=control)
    thread.join()
    assert sink.stopped.is_set() and not (tmp_path / "rows.parquet").exists()
