"""Fakes of what the engine is handed: connectors, strategies, checks and a control."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from pz_core.contract.capabilities import Capabilities
from pz_core.contract.check import CheckDefinition, CheckQuery
from pz_core.contract.connector import NativeScan, Partition, ReadSpec, Receipt, WriteSpec
from pz_core.contract.engine import Cancelled, CheckTask, DrainTask, EngineSettings, LandTask, MaterialiseTask, NodeRef
from pz_core.contract.options import option_set
from pz_core.contract.strategy import StrategyTraits
from pz_core.engines.duckdb.engine import DuckDBEngine
from pz_core.values import Column


class Control:
    attempt = 1

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.interrupts: list[Callable[[], None]] = []
        self.seen: list[tuple[int, int, int]] = []

    def progress(self, rows: int, bytes: int, batches: int) -> None:
        self.seen.append((rows, bytes, batches))

    def raise_if_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled

    def on_cancel(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        self.interrupts.append(interrupt)
        return lambda: self.interrupts.remove(interrupt)

    def cancel(self) -> None:
        self.cancelled.set()
        for interrupt in list(self.interrupts):
            interrupt()


@dataclass
class FakeSource:
    """Reads partitions given as functions of the batch size; offers ``scan`` natively."""

    parts: list[Callable[[int], Iterator[pa.RecordBatch]]] = field(default_factory=list)
    scan: NativeScan | None = None
    columns: tuple[Column, ...] = ()
    closed: int = 0
    asked: list[ReadSpec] = field(default_factory=list)

    def natural_shape(self, spec: ReadSpec) -> str:
        return "full"

    def schema(self, spec: ReadSpec) -> tuple[Column, ...]:
        return self.columns

    def native_scan(self, spec: ReadSpec) -> NativeScan | None:
        self.asked.append(spec)
        return self.scan

    def partitions(self, spec: ReadSpec) -> list[Partition]:
        return [Partition(i, None, {"n": i}) for i in range(len(self.parts))]

    def read(self, spec: ReadSpec, partition: Partition, batch_rows: int) -> Iterator[pa.RecordBatch]:
        return self.parts[partition.ordinal](batch_rows)

    def close(self) -> None:
        self.closed += 1


@dataclass
class Session:
    """A write session that remembers what was called."""

    fail_at: int | None = None
    fail_commit: bool = False
    fail_abort: bool = False
    lose: int = 0
    calls: list[str] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def write(self, batch: pa.RecordBatch) -> None:
        self.calls.append("write")
        if self.fail_at == len(self.batches):
            raise RuntimeError("the pipe broke")
        self.batches.append(batch)

    def commit(self) -> Receipt:
        self.calls.append("commit")
        if self.fail_commit:
            raise RuntimeError("no answer to the commit")
        return Receipt(sum(b.num_rows for b in self.batches) - self.lose, len(self.batches))

    def abort(self) -> None:
        self.calls.append("abort")
        if self.fail_abort:
            raise RuntimeError("abort broke too")


class DuckSqlSession:
    """A session on tables, backed by a DuckDB of its own."""

    staged = '"beside"'
    target = '"main"."goal"'
    order = "rowid"
    dialect = "duckdb"

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self.calls: list[str] = []
        self.rows = 0
        con.execute("BEGIN")
        self.made = False

    def write(self, batch: pa.RecordBatch) -> None:
        self.calls.append("write")
        self.con.register("incoming", batch)
        verb = 'INSERT INTO "beside" ' if self.made else 'CREATE TEMP TABLE "beside" AS '
        self.con.execute(verb + "SELECT * FROM incoming")
        self.made = True
        self.rows += batch.num_rows

    def columns(self) -> tuple[Column, ...] | None:
        found = self.con.execute(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns() "
            "WHERE table_name = 'goal' ORDER BY column_index"
        ).fetchall()
        return tuple(Column(*r) for r in found) or None

    def execute(self, sql: str) -> Iterator[pa.RecordBatch]:
        self.calls.append(sql.split()[0])
        yield from self.con.execute(sql).to_arrow_reader(1000)

    def commit(self) -> Receipt:
        self.calls.append("commit")
        self.con.execute("COMMIT")
        return Receipt(self.rows)

    def abort(self) -> None:
        self.calls.append("abort")
        self.con.execute("ROLLBACK")


@dataclass
class FakeSink:
    native: Any = None
    session: Any = None
    closed: int = 0
    begun: list[tuple[WriteSpec, tuple[Column, ...]]] = field(default_factory=list)

    def native_write(self, spec: WriteSpec) -> Any:
        return self.native

    def begin(self, spec: WriteSpec, columns: tuple[Column, ...]) -> Any:
        self.begun.append((spec, columns))
        return self.session() if callable(self.session) and not hasattr(self.session, "write") else self.session

    def abort_semantics(self) -> str:
        return "discards_all"

    def close(self) -> None:
        self.closed += 1


class FakeConnector:
    name = "fake"
    connection_options = read_options = write_options = option_set()
    capabilities = Capabilities()

    def __init__(self, source: Any = None, sink: Any = None) -> None:
        self.source, self.sink = source, sink

    def open_source(self) -> Any:
        return self.source

    def open_sink(self) -> Any:
        return self.sink


class FakeStrategy:
    """Runs what it is told; ``{staged}``, ``{target}``, ``{names}``, ``{order}`` are filled in."""

    options = option_set()

    def __init__(self, program: tuple[str, ...] = (), probes: tuple[Any, ...] = (), keyed: bool = False) -> None:
        self.name = "fake"
        self._program, self._probes = program, probes
        self.traits = StrategyTraits(keyed, False, False, False, ("program",))

    def probes(self, request: Any) -> tuple[Any, ...]:
        return self._probes

    def program(self, request: Any) -> tuple[str, ...]:
        names = ", ".join(f'"{c.name}"' for c in request.columns)
        return tuple(
            s.format(staged=request.staged, target=request.target, names=names, order=request.order)
            for s in self._program
        )


class Host:
    def __init__(self) -> None:
        self.connectors: dict[str, Any] = {}
        self.strategies: dict[str, Any] = {}
        self.checks: dict[str, Any] = {}

    def connector(self, connection: str) -> Any:
        return self.connectors[connection]

    def strategy(self, name: str) -> Any:
        if name in self.strategies:
            return self.strategies[name]
        from pz_core.strategies.append import Append
        from pz_core.strategies.merge import Merge
        from pz_core.strategies.replace import Replace

        return {"append": Append, "merge": Merge, "replace": Replace}[name]()

    def check(self, kind: str) -> Any:
        return self.checks[kind]


class FakeCheck:
    def __init__(self, query: CheckQuery) -> None:
        self.asked = query

    def query(self, definition: CheckDefinition, relation: str, now: Any) -> CheckQuery:
        q = self.asked
        fill = lambda s: None if s is None else s.replace("{relation}", relation)  # noqa: E731
        return CheckQuery(fill(q.count) or "", fill(q.sample), fill(q.detail), q.unit, q.sample_limit)


class Bench:
    """An engine with its host, and short ways to make tasks."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.host = Host()
        self.path = folder / "staging.duckdb"
        self.settings = EngineSettings(
            str(self.path),
            str(folder / "spill"),
            **{"threads": 2, "run_id": "r1", "started_at": "2026-01-01T00:00:00Z", **settings},
        )
        self.engine = DuckDBEngine(self.settings, self.host)
        self.control = Control()

    def source(self, source: FakeSource, connection: str = "shop") -> FakeSource:
        self.host.connectors[connection] = FakeConnector(source=source)
        return source

    def sink(self, sink: FakeSink, connection: str = "mart") -> FakeSink:
        self.host.connectors[connection] = FakeConnector(sink=sink)
        return sink

    def land(
        self, tier: str = "native", control: Any = None, relation: str = "src", connection: str = "shop", **read: Any
    ) -> Any:
        task = LandTask(NodeRef("id", relation), relation, connection, "fake", tier, ReadSpec("orders", **read))  # type: ignore[arg-type]
        return self.engine.land(task, control or self.control)

    def make(self, sql: str, relation: str = "orders", as_view: bool = False, control: Any = None) -> Any:
        return self.engine.materialise(
            MaterialiseTask(NodeRef("id", relation), relation, sql, as_view), control or self.control
        )

    def check(self, query: CheckQuery, samples: bool = True, relation: str = "orders") -> Any:
        self.host.checks["fake"] = FakeCheck(query)
        return self.engine.check(
            CheckTask(NodeRef("id", "check_it"), relation, CheckDefinition("fake"), samples), self.control
        )

    def drain(
        self,
        tier: str = "native",
        relation: str = "orders",
        control: Any = None,
        connection: str = "mart",
        **write: Any,
    ) -> Any:
        task = DrainTask(
            NodeRef("id", "mart.orders"),
            relation,
            connection,
            "fake",
            tier,
            WriteSpec(**{"entity": "orders", **write}),  # type: ignore[arg-type]
        )
        return self.engine.drain(task, control or self.control)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self.engine._session.task(Control()) as work:
            return work.run(sql).fetchall()

    def relations(self) -> list[str]:
        return [
            r[0]
            for r in self.ask(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = 'staging' ORDER BY 1"
            )
        ]


def wait_until(what: Callable[[], bool], seconds: float = 5.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)


def batches(sql: str, rows: int = 1000) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """A partition whose rows come from a query, through DuckDB's lossless Arrow."""

    def read(_: int) -> Iterator[pa.RecordBatch]:
        con = duckdb.connect(config={"arrow_lossless_conversion": "true"})
        con.execute("SET TimeZone = 'UTC'")
        reader = con.execute(sql).to_arrow_reader(rows)
        empty = True
        for batch in reader:
            empty = False
            yield batch
        if empty:
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)

    return read


@pytest.fixture
def fakes() -> SimpleNamespace:
    return SimpleNamespace(
        Control=Control, Source=FakeSource, Sink=FakeSink, Session=Session, DuckSqlSession=DuckSqlSession,
        Strategy=FakeStrategy, wait_until=wait_until, batches=batches, Bench=Bench,
    )  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.engine.close()
