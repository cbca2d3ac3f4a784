"""Batches that a thread sends: whatever goes wrong in the middle of many, nothing stays, here or on the server."""

from __future__ import annotations

import dataclasses
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest
from pz_postgres.sending import Sending
from servers import Unavailable, wait_until
from servers.postgres import start_postgres

from pz_core.contract.connector import ConnectorError, WriteSpec
from pz_core.errors import PzError
from pz_core.testkit.bench import Bench, KitControl
from pz_core.testkit.proxy import DroppingProxy

APPEND = WriteSpec("board", strategy="append", load_mode="program", run_id="r")
REPLACE = msgspec.structs.replace(APPEND, strategy="replace")
MERGE = msgspec.structs.replace(APPEND, strategy="merge", keys=("i",))
MANY = "SELECT i, 'row ' || i AS s FROM range(100, 200100) r(i)"
#: Small, so that a load has some forty of them.
BATCH = 131_072
WAYS = pytest.mark.parametrize("spec", [APPEND, REPLACE, MERGE], ids=lambda s: s.strategy)
#: A load that lays rows aside first sends them as one that does not; each is tried where there is time.
DEEP_WAYS = pytest.mark.parametrize(
    "spec",
    [APPEND, pytest.param(REPLACE, marks=pytest.mark.deep), pytest.param(MERGE, marks=pytest.mark.deep)],
    ids=["append", "replace", "merge"],
)


@pytest.fixture
def board(pg18: Any) -> Any:
    pg18.run("CREATE TABLE board (i bigint PRIMARY KEY, s text CHECK (s <> 'row 200000'))")
    pg18.run("INSERT INTO board SELECT i, 'old' FROM generate_series(1, 50) i")
    return pg18


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: Any) -> Iterator[None]:
    """No thread that sends and no file of a batch outlives its load, however that ends."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    yield
    assert [t.name for t in threading.enumerate() if t.name == "pz-postgres-send"] == []
    assert list(scratch.glob("pz-postgres-*")) == []


def untouched(address: Any) -> None:
    assert address.run("SELECT count(*), count(*) FILTER (WHERE s = 'old') FROM board") == [(50, 50)]
    assert address.run("SELECT relname FROM pg_class WHERE relname LIKE 'pz\\_%'") == []


def copying(address: Any) -> list[Any]:
    """Process ids of the sessions that take a COPY of a load."""
    return address.run(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY %FROM STDIN%' "
        "AND state = 'active'"
    )


@pytest.fixture(params=["native", "universal"])
def tier(request: Any) -> Any:
    """Rows through a pipe that DuckDB writes to, and rows in batches."""
    return request.param


class Load(threading.Thread):
    """A load in a thread of its own, which is over within a time or fails the test."""

    def __init__(self, made: Bench, spec: WriteSpec, tier: Any, rows: str = MANY) -> None:
        super().__init__(daemon=True)
        self.made, self.spec, self.tier, self.rows = made, spec, tier, rows
        self.control = KitControl()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.made.drain(self.rows, self.spec, self.tier, batch_bytes=BATCH, control=self.control)
        except BaseException as error:  # noqa: BLE001 - it is handed back to be judged
            self.error = error

    def fault(self, seconds: float = 20) -> BaseException:
        self.join(seconds)
        assert not self.is_alive(), "the load hangs"
        assert self.error is not None, "the load was through before anything could go wrong"
        return self.error


@WAYS
def test_many_batches_arrive_whole(board: Any, bench: Callable[..., Bench], spec: WriteSpec, tier: Any) -> None:
    rows = MANY.replace("'row '", "'r'")
    done = bench(board).drain(rows, spec, tier, batch_bytes=BATCH)
    kept = 0 if spec is REPLACE else 50
    assert done.rows_written == 200_000
    assert board.run("SELECT count(*), sum(i) FROM board WHERE s = 'r' || i") == [(200_000, 20_019_900_000)]
    assert board.run("SELECT count(*) FROM board") == [(200_000 + kept,)]


@WAYS
@pytest.mark.parametrize("rows", [0, 1], ids=["none", "one"])
def test_no_batch_and_one_batch(board: Any, bench: Callable[..., Bench], spec: WriteSpec, rows: int, tier: Any) -> None:
    bench(board).drain(f"SELECT i + 100 AS i, 'new' AS s FROM range({rows}) r(i)", spec, tier)
    kept = 0 if spec is REPLACE else 50
    assert board.run("SELECT count(*), count(*) FILTER (WHERE s = 'new') FROM board") == [(kept + rows, rows)]


@pytest.mark.parametrize("spec", [APPEND, pytest.param(REPLACE, marks=pytest.mark.deep)], ids=["append", "replace"])
@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (MANY.replace("i,", "CASE WHEN i = 100000 THEN 100 ELSE i END AS i,", 1), "unique"),
        (MANY, "check"),
        (MANY.replace("i,", "CASE WHEN i = 100000 THEN NULL ELSE i END AS i,", 1), "null"),
        (MANY.replace("'row ' ||", "CASE WHEN i = 150000 THEN chr(0) ELSE '' END ||"), "s"),
    ],
    ids=["unique", "check", "null", "text"],
)
def test_a_row_that_the_target_refuses_undoes_all(
    board: Any, bench: Callable[..., Bench], spec: WriteSpec, rows: str, told: str, tier: Any
) -> None:
    with pytest.raises(PzError) as caught:
        bench(board).drain(rows, spec, tier, batch_bytes=BATCH)
    assert caught.value.code in ("PZ0501", "PZ0812", "PZ0804") and told in str(caught.value)
    untouched(board)


@DEEP_WAYS
@pytest.mark.parametrize("end", ["pg_terminate_backend", "pg_cancel_backend"])
def test_a_session_that_is_ended_on_the_server(
    board: Any, bench: Callable[..., Bench], spec: WriteSpec, end: str, tier: Any
) -> None:
    load = Load(bench(board), spec, tier)
    wait_until(lambda: bool(copying(board)), "the COPY to run")
    for (pid,) in copying(board):
        board.run(f"SELECT {end}(%s)", pid)
    error = load.fault()
    assert isinstance(error, ConnectorError) and error.code.startswith("PZ0") and error.transient and error.hint
    untouched(board)


@DEEP_WAYS
@pytest.mark.parametrize("sent", [200_000, 1_500_000])
def test_a_connection_that_is_dropped_in_the_middle(
    board: Any, bench: Callable[..., Bench], spec: WriteSpec, sent: int, tier: Any
) -> None:
    with DroppingProxy((board.host, board.port), after_sent=sent) as proxy:
        load = Load(bench(dataclasses.replace(board, port=proxy.port)), spec, tier)
        error = load.fault()
    assert isinstance(error, ConnectorError) and error.transient and proxy.dropped == 1
    wait_until(lambda: not copying(board), "the server to notice")
    untouched(board)


@WAYS
def test_a_load_that_is_cancelled_ends_soon(
    board: Any, bench: Callable[..., Bench], spec: WriteSpec, tier: Any
) -> None:
    load = Load(bench(board), spec, tier)
    wait_until(lambda: bool(copying(board)), "the COPY to run")
    began = time.monotonic()
    load.control.cancel()
    load.fault(10)
    assert time.monotonic() - began < 5
    untouched(board)


def test_a_load_that_waits_for_another_is_cancelled_all_the_same(
    board: Any, bench: Callable[..., Bench], tier: Any
) -> None:
    with board.connect() as other, other.transaction(force_rollback=True):
        other.execute("INSERT INTO board VALUES (100, 'other')")
        load = Load(bench(board), APPEND, tier)
        waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        wait_until(lambda: board.run(waits) == [(1,)], "the load to wait")
        began = time.monotonic()
        load.control.cancel()
        load.fault(10)
        assert time.monotonic() - began < 5
    untouched(board)


def test_a_row_that_cannot_be_encoded_stops_what_is_being_sent(
    board: Any, bench: Callable[..., Bench], tier: Any
) -> None:
    rows = MANY.replace("i,", "CASE WHEN i = 199999 THEN error('no such row') ELSE i END::BIGINT AS i,", 1)
    load = Load(bench(board), APPEND, tier, rows)
    assert isinstance(load.fault(), PzError)
    untouched(board)


@WAYS
def test_a_batch_that_is_gone_before_it_is_sent_is_not_left_out(
    board: Any, bench: Callable[..., Bench], spec: WriteSpec, monkeypatch: Any
) -> None:
    add = Sending.add

    def lose_one(self: Sending, file: Path) -> None:
        if file.name == "batch3":
            file.unlink()
        add(self, file)

    monkeypatch.setattr(Sending, "add", lose_one)
    with pytest.raises(ConnectorError):
        bench(board).drain(MANY.replace("'row '", "'r'"), spec, "universal", batch_bytes=BATCH)
    untouched(board)


def test_a_pipe_needs_no_name_once_rows_come(board: Any, bench: Callable[..., Bench], tmp_path: Path) -> None:
    """A process that is killed by then leaves no pipe and no folder."""
    load = Load(bench(board), APPEND, "native", MANY.replace("200100", "3000000"))
    wait_until(lambda: bool(copying(board)), "the COPY to run")
    wait_until(lambda: list((tmp_path / "scratch").glob("pz-postgres-*")) == [], "the pipe to lose its name")
    assert load.is_alive()
    load.control.cancel()
    load.fault(10)
    untouched(board)


@pytest.mark.deep
@WAYS
def test_a_server_that_is_killed_in_the_middle(
    bench: Callable[..., Bench], spec: WriteSpec, monkeypatch: Any, tier: Any
) -> None:
    try:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(tempfile, "tempdir", None)
            server = start_postgres(18)
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        address = server.address
        address.run("CREATE TABLE board AS SELECT i::bigint AS i, 'old' AS s FROM generate_series(1, 50) i")
        address.run("CHECKPOINT")  # the tests' servers may lose what they have just committed
        load = Load(bench(address), spec, tier)
        wait_until(lambda: bool(copying(address)), "the COPY to run")
        server.kill()
        error = load.fault()
        assert isinstance(error, ConnectorError) and error.transient
        server.restart()
        untouched(address)
    finally:
        server.stop()
