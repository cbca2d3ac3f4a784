"""A guarded scan that stops is settled and landed again, in one attempt of the node."""

from __future__ import annotations

import pytest

from pz_core.contract.connector import ConnectorError, NativeScan
from pz_core.contract.engine import Cancelled
from pz_core.contract.refusals import trip


class Settling:
    """Gives a fake source a scan to settle to, and remembers what it was asked with."""

    def __init__(self, source, settled):
        self.source, self.settled, self.asked_to_settle = source, settled, []

    def __getattr__(self, name):
        return getattr(self.source, name)

    def resolve_scan(self, spec):
        return self.source.scan

    def settle_scan(self, spec):
        self.asked_to_settle.append(spec)
        if isinstance(self.settled, Exception):
            raise self.settled
        return self.settled


def trips_at(row):
    value = f"CASE WHEN i = {row} THEN {trip()} ELSE i END"
    return NativeScan(f"SELECT {value} AS id FROM range(200000) r(i)", guarded=True)


def test_a_guard_that_holds_lands_at_once(bench, fakes):
    source = bench.source(Settling(fakes.Source(scan=trips_at(-1)), None))
    assert bench.land().rows_staged == 200_000
    assert source.asked_to_settle == []


def test_a_tripped_guard_leaves_nothing_and_the_settled_scan_lands(bench, fakes):
    settled = NativeScan("SELECT i + 0.5 AS id FROM range(200000) r(i)")
    source = bench.source(Settling(fakes.Source(scan=trips_at(150_000)), settled))
    result = bench.land()
    assert (result.rows_read, result.rows_staged, result.columns[0].type) == (200_000, 200_000, "DECIMAL(21,1)")
    assert len(source.asked_to_settle) == 1
    assert bench.ask("SELECT count(*) FROM staging.src") == [(200_000,)]


def test_the_fault_that_settling_finds_is_the_one_told(bench, fakes):
    fault = ConnectorError("inbox.t: column 'v', row 7 of a.csv, holds a text", code="PZ0812")
    bench.source(Settling(fakes.Source(scan=trips_at(5)), fault))
    with pytest.raises(ConnectorError) as caught:
        bench.land()
    assert caught.value is fault
    assert bench.relations() == []


def test_a_scan_that_fails_when_settled_too_is_told_without_the_mark_of_a_guard(bench, fakes):
    bench.source(Settling(fakes.Source(scan=trips_at(5)), NativeScan("SELECT * FROM read_csv('/nowhere/a.csv')")))
    with pytest.raises(ConnectorError, match="nowhere") as caught:
        bench.land()
    assert "guard" not in caught.value.message


def test_the_second_landing_can_be_interrupted(bench, fakes):
    endless = NativeScan("SELECT count(*) AS n FROM range(10000000000) a(i), range(1000) b(j) WHERE hash(i, j) = 0")
    control = fakes.Control()
    source = bench.source(Settling(fakes.Source(scan=trips_at(5)), endless))
    import threading

    timer = threading.Timer(0.15, control.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        bench.land(control=control)
    timer.join()
    assert source.asked_to_settle
    assert bench.relations() == []
