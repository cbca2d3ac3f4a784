"""An engine of its own, and connections to the bucket of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pz_s3.connector import S3

from pz_core.contract import ConnectionConfig, ReadSpec, Secret, WriteSpec
from pz_core.contract.engine import Cancelled, DrainTask, EngineSettings, LandTask, NodeRef
from pz_core.engines.duckdb.engine import DuckDBEngine
from pz_core.strategies.append import Append
from pz_core.strategies.replace import Replace

RUN = "20260903T101533221Z-aa00"


class Control:
    """Of a task; :meth:`cancel` is Ctrl-C."""

    attempt = 1

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._interrupts: list[Callable[[], None]] = []

    def progress(self, rows: int, bytes: int, batches: int) -> None: ...

    def raise_if_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled

    def on_cancel(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        self._interrupts.append(interrupt)
        return lambda: self._interrupts.remove(interrupt)

    def cancel(self) -> None:
        self.cancelled.set()
        for interrupt in list(self._interrupts):
            interrupt()


class Moves:
    """Moves rows between a bucket and the staging database, by the engine, as a run does."""

    def __init__(self, project: Path, store: Any) -> None:
        self.project = project
        self.store = store
        self.connections: dict[str, S3] = {"lake": self.connection("lake")}
        self.control = Control()
        settings = EngineSettings(str(project / "s.duckdb"), str(project / "spill"), threads=2, run_id=RUN)
        self.engine = DuckDBEngine(settings, self)  # type: ignore[arg-type]

    def connection(self, name: str, root: str | None = None, **options: object) -> S3:
        """A connection to the test's bucket, with other options where they are given."""
        given = {**self.store.options(root), **options}
        secret = {k: Secret(str(v)) for k, v in given.items() if k in ("access_key", "secret_key")}
        return S3(ConnectionConfig(name, "s3", {**given, **secret}, str(self.project)))

    def connector(self, name: str) -> S3:
        """What the engine asks its host for."""
        return self.connections[name]

    def strategy(self, name: str) -> Append | Replace:
        """The same."""
        return {"append": Append, "replace": Replace}[name]()

    def land(self, tier: str = "native", entity: str = "t", connection: str = "lake", **read: Any) -> list[Any]:
        """Rows as they were landed, sorted; ``self.landed`` is the engine's word on it."""
        spec = ReadSpec(entity, **read)
        task = LandTask(NodeRef("id", "t"), "t", connection, "s3", tier, spec)  # type: ignore[arg-type]
        self.landed = self.engine.land(task, self.control)
        return self.query("SELECT * FROM staging.t ORDER BY ALL")

    def query(self, sql: str) -> list[Any]:
        """On the staging database."""
        with self.engine._session.task(Control()) as work:  # type: ignore[arg-type]
            return work.run(sql).fetchall()

    def drain(self, query: str, tier: str = "native", **write: Any) -> Any:
        """Write the rows of a query; ``replace`` unless told otherwise."""
        self.query(f"CREATE OR REPLACE TABLE staging.w AS {query}")
        spec = {"strategy": "replace", "run_id": RUN, "entity": "w", "connection": "lake", **write}
        connection = spec.pop("connection")
        spec["load_mode"] = "swap" if spec["strategy"] == "replace" else "add"
        task = DrainTask(NodeRef("id", "w"), "w", connection, "s3", tier, WriteSpec(**spec), {}, None)  # type: ignore[arg-type]
        return self.engine.drain(task, self.control)

    def left(self) -> list[str]:
        """What is still in the project's folder for files on their way."""
        folder = self.project / ".pz" / "tmp"
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) if folder.exists() else []


@pytest.fixture
def moves(tmp_path: Path, s3: Any) -> Iterator[Moves]:
    """A bucket of the test's own, and an engine."""
    made = Moves(tmp_path, s3)
    yield made
    made.engine.close()


@pytest.fixture(params=["native", "universal"])
def tier(request: pytest.FixtureRequest) -> str:
    """Each tier in turn."""
    return str(request.param)


def parquet(folder: Path, query: str) -> bytes:
    """A parquet file's bytes."""
    path = folder / "made.parquet"
    duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()
