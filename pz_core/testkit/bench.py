"""The workbench of the kit: the engine that runs use, with one connector and one pair of hands."""

from __future__ import annotations

import contextlib
import functools
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from pz_core.contract.connector import Connector, CursorBounds, ReadSpec, WriteSpec
from pz_core.contract.engine import (
    Cancelled,
    DrainResult,
    DrainTask,
    EngineSettings,
    LandResult,
    LandTask,
    NodeRef,
    Tier,
)
from pz_core.contract.ledger import LedgerClaim
from pz_core.contract.registration import Kind
from pz_core.engines.duckdb.engine import DuckDBEngine
from pz_core.engines.duckdb.session import Work, staged
from pz_core.plugins import Registry
from pz_core.testkit.rows import Rows, read_rows
from pz_core.values import Value, quote_identifier

if TYPE_CHECKING:
    import pyarrow as pa

RUN_ID = "20260101T000000000Z-0001"
STARTED_AT = "2026-01-01T00:00:00.000000Z"


class KitControl:
    """What a task is given in a run: attempt, progress and cancelling.

    Args:
        attempt: of the node, from 1.
        cancel_when: called at every look whether the task should stop; once it says so, the task is cancelled.
    """

    def __init__(self, attempt: int = 1, cancel_when: Callable[[], bool] | None = None) -> None:
        self.attempt = attempt
        self._when = cancel_when
        self._cancelled = threading.Event()
        self._interrupts: list[Callable[[], None]] = []

    def progress(self, rows: int, bytes: int, batches: int) -> None:
        """Nothing is shown."""

    def raise_if_cancelled(self) -> None:
        """Raise :class:`Cancelled` if the task should stop."""
        if self._when is not None and not self._cancelled.is_set() and self._when():
            self.cancel()
        if self._cancelled.is_set():
            raise Cancelled

    def on_cancel(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        """Register what stops a call in flight."""
        self._interrupts.append(interrupt)

        def take_back() -> None:
            with contextlib.suppress(ValueError):
                self._interrupts.remove(interrupt)

        return take_back

    def cancel(self) -> None:
        """Tell the task to stop, from any thread."""
        self._cancelled.set()
        for interrupt in tuple(self._interrupts):
            interrupt()


class _Engine(DuckDBEngine):
    """The engine, with a way to put rows into staging and to look at them."""

    @contextlib.contextmanager
    def work(self) -> Iterator[Work]:
        with self._session.task(KitControl()) as work:
            yield work


class _Host(Struct):
    """Hands the engine the one connector of a bench, and any strategy that is installed."""

    one: Connector
    strategies: Mapping[str, object] = field(default_factory=dict)

    def connector(self, connection: str) -> Connector:
        return self.one

    def strategy(self, name: str) -> object:
        if name in self.strategies:
            return self.strategies[name]
        return _installed("strategy", name)()

    def check(self, kind: str) -> object:
        return _installed("check", kind)()


@functools.cache
def _installed(kind: Kind, name: str) -> Any:
    """The class of what is installed; looking for it each time would take longer than to load a few rows."""
    return Registry().load(kind, name)


class Landed(Struct, frozen=True):
    """What a read brought in: the engine's account of it, and the rows."""

    result: LandResult
    rows: Rows


class Bench:
    """Lands and drains as a run does. Every call is a run of its own, with an engine and a staging file of its own.

    Inside ``with bench.one_run():`` all calls belong to one.

    Args:
        connector: the one connection.
        folder: where staging files go; nothing stays there.
        strategies: instances by name, before those that are installed.
    """

    def __init__(self, connector: Connector, folder: Path, strategies: Mapping[str, object] | None = None) -> None:
        self._host = _Host(connector, strategies or {})
        self._folder = folder
        self._lock = threading.Lock()
        self._number = 0
        self._kept: _Engine | None = None

    @contextlib.contextmanager
    def one_run(self) -> Iterator[None]:
        """Let all calls inside be tasks of one run."""
        with self._engine(33_554_432) as engine:
            self._kept = engine
            try:
                yield
            finally:
                self._kept = None

    def land(
        self,
        spec: ReadSpec,
        tier: Tier,
        *,
        slice: CursorBounds | None = None,
        batch_bytes: int = 33_554_432,
        control: KitControl | None = None,
        where: str | None = None,
    ) -> Landed:
        """Land an entity and give its rows.

        Args:
            spec: of the read.
            tier: ``native`` or ``universal``.
            slice: bounds that the engine holds the rows to in the end.
            batch_bytes: size that record batches aim at.
            control: for cancelling.
            where: a filter in DuckDB's SQL; only the landed rows that pass it are given.
        """
        with self._engine(batch_bytes) as engine:
            task = LandTask(NodeRef("kit", f"kit.{spec.entity}"), "landed", "kit", "kit", tier, spec, slice)
            result = engine.land(task, control or KitControl())
            wanted = staged("landed") if where is None else f"(SELECT * FROM {staged('landed')} WHERE {where})"
            with engine.work() as work:
                return Landed(result, read_rows(work.cursor, wanted))

    def landed_after_failure(
        self, spec: ReadSpec, tier: Tier, control: KitControl
    ) -> tuple[BaseException | None, bool]:
        """Land what is expected to fail: the error, and whether anything of it can be seen in staging."""
        with self._engine(65_536) as engine:
            task = LandTask(NodeRef("kit", f"kit.{spec.entity}"), "landed", "kit", "kit", tier, spec)
            error: BaseException | None = None
            try:
                engine.land(task, control)
            except Exception as caught:  # noqa: BLE001 - it is handed back to be judged
                error = caught
            with engine.work() as work:
                there = work.count("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'landed'")
            return error, bool(there)

    def drain(
        self,
        rows: pa.Table | str,
        spec: WriteSpec,
        tier: Tier,
        *,
        options: Mapping[str, Value] | None = None,
        batch_bytes: int = 33_554_432,
        control: KitControl | None = None,
        ledger: LedgerClaim | None = None,
    ) -> DrainResult:
        """Load rows into an entity.

        Args:
            rows: an Arrow table, or a SELECT in DuckDB's SQL that is evaluated while it is written.
            spec: of the write; run id and attempt are filled in where they are missing.
            tier: ``native`` or ``universal``.
            options: of the strategy.
            batch_bytes: size that record batches aim at.
            control: for cancelling and attempts.
            ledger: what to ask of the target's ledger, and to write into it with the rows.
        """
        with self._engine(batch_bytes, spec.run_id) as engine:
            with engine.work() as work:
                if isinstance(rows, str):
                    work.run(f"CREATE OR REPLACE VIEW {staged('outgoing')} AS {rows}")
                else:
                    work.cursor.register("kit_rows", rows)
                    fields = ", ".join(quote_identifier(c.name) for c in work.columns("kit_rows"))
                    work.run(f"CREATE TABLE {staged('outgoing')} AS SELECT {fields} FROM kit_rows")
                    work.cursor.unregister("kit_rows")
            node = NodeRef("kit", f"kit.{spec.entity}")
            task = DrainTask(node, "outgoing", "kit", "kit", tier, spec, dict(options or {}), ledger=ledger)
            if ledger is not None:
                engine.open_ledger(task, KitControl())
            return engine.drain(task, control or KitControl(spec.attempt))

    @contextlib.contextmanager
    def _engine(self, batch_bytes: int, run_id: str = "") -> Iterator[_Engine]:
        if self._kept is not None:
            yield self._kept
            return
        with self._lock:
            self._number += 1
            folder = self._folder / f"run{self._number}"
        folder.mkdir(parents=True)
        settings = EngineSettings(
            staging_path=str(folder / "staging.duckdb"),
            temp_directory=str(folder / "spill"),
            threads=2,
            batch_bytes=batch_bytes,
            run_id=run_id or RUN_ID,
            started_at=STARTED_AT,
        )
        engine = _Engine(settings, cast(Any, self._host))
        try:
            yield engine
        finally:
            engine.close()
            shutil.rmtree(folder, ignore_errors=True)
