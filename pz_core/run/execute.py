"""Carries a plan out: the run's directory, its nodes, and the order in which a run is ended."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from pz_core.compile.model import Graph
from pz_core.contract.engine import Engine, EngineSettings, LandTask
from pz_core.contract.events import NodeStarted, RunStarted
from pz_core.contract.observer import Observer
from pz_core.errors import Notice, PzError, PzErrors
from pz_core.plan.model import Plan
from pz_core.plugins import Registry
from pz_core.run.breaker import Breaker
from pz_core.run.bus import EventBus
from pz_core.run.cancel import CancelToken, StopSignals, monotonic_ms
from pz_core.run.ending import Ending, RunResult
from pz_core.run.faults import unexpected
from pz_core.run.feeds import TokenFile
from pz_core.run.fingerprints import connections_of, vars_hash
from pz_core.run.history import runs_dir
from pz_core.run.host import RunHost
from pz_core.run.ledger import Ledgers
from pz_core.run.loads import Memory
from pz_core.run.lock import RunLock
from pz_core.run.memory import RunMemory
from pz_core.run.nodes import NodeRunner
from pz_core.run.results import FILE, RUNNING, NodeResult, ResultsFile
from pz_core.run.reuse import TakenOver
from pz_core.run.runid import in_milliseconds, now_stamp
from pz_core.run.scheduler import Outcome, Scheduler, Work
from pz_core.run.state import Stored
from pz_core.run.store import RunRecorder, StoredEvents, store_what_is_missing
from pz_core.run.telling import breaker_listener, node_completed

__all__ = ["RunResult", "execute"]

#: How long the end of a run waits for its engine where a node was given up, in seconds.
CLOSE_SECONDS = 5.0


def execute(
    plan: Plan,
    selected: frozenset[str],
    registry: Registry,
    *,
    run_id: str,
    started_at: str,
    fail_fast: bool = False,
    full_refresh: bool = False,
    observers: Sequence[Observer] = (),
    handle_signals: bool = True,
    cancel: CancelToken | None = None,
    advance: bool = True,
    taken_over: TakenOver | None = None,
) -> RunResult:
    """Run the selected nodes and all that they depend on.

    Args:
        plan: of the whole project.
        selected: ids of nodes; their ancestors are added.
        registry: where plugins are found.
        run_id: of this run, by :func:`pz_core.run.runid.mint`.
        started_at: ISO text in UTC, one reading of the clock for the whole run.
        fail_fast: stop at the first failed node.
        full_refresh: read everything again, whatever is stored.
        observers: who gets the events.
        handle_signals: let the first SIGINT, SIGTERM or SIGHUP stop the run in order, the second end the process.
        cancel: a token to stop the run by; one of its own without it.
        advance: move watermarks at the end; a run that only looks leaves them.
        taken_over: what a retry has from the run before it.

    Returns:
        The result; a node that fails is no exception.

    Raises:
        PzErrors: what the plan refuses for these nodes; nothing was written then.
        PzError: PZ0125, PZ0518 or PZ0519 if the state cannot be opened, before anything is written; PZ0531 to PZ0533
            or PZ0500 if the run's directory cannot be made.
    """
    graph = plan.graph
    effective = selected.union(*(graph.ancestors(id) for id in selected)) if selected else frozenset()
    refusals = [node.refusal for node in plan.nodes if node.id in effective and node.refusal is not None]
    if refusals:
        raise PzErrors(refusals)
    token = cancel or CancelToken()
    with StopSignals(token) if handle_signals else nullcontext():
        run = _Run(plan, effective, registry, run_id, started_at, fail_fast, observers, token)
        run.full_refresh, run.advances = full_refresh, advance
        run.taken_over = taken_over or TakenOver("")
        try:
            run.remember()
            try:
                run.open()
            except OSError as error:
                run.withdraw()
                raise unexpected(error) from error
            except PzError:
                run.withdraw()
                raise
            try:
                return run.carry_out()
            finally:
                run.lock.release()
        finally:
            if run.memory is not None:
                run.memory.close()


class _Run:
    def __init__(
        self,
        plan: Plan,
        effective: frozenset[str],
        registry: Registry,
        run_id: str,
        started_at: str,
        fail_fast: bool,
        observers: Sequence[Observer],
        token: CancelToken,
    ) -> None:
        self.plan, self.effective, self.registry = plan, effective, registry
        self.run_id, self.started_at, self.fail_fast, self.token = run_id, started_at, fail_fast, token
        self.observers = observers
        self.graph: Graph = plan.graph
        self.project = plan.graph.project
        self.directory = runs_dir(self.project.root) / run_id
        self.temp_base = self._temp_base()
        self.temp = self.temp_base / run_id
        self.lock = RunLock(self.directory)
        self.results = ResultsFile(self.directory / FILE, run_id, in_milliseconds(started_at))
        self.notices: list[Notice] = []
        self.errors: list[PzError] = []
        self.began = monotonic_ms()
        self.made = False
        self.full_refresh, self.advances = False, True
        self.taken_over = TakenOver("")
        self.memory: RunMemory | None = None
        self.token_file = TokenFile(self.directory)
        self.recorder: RunRecorder | None = None

    def _temp_base(self) -> Path:
        asked = self.project.engine.temp_directory
        return self.project.root / asked if asked else self.project.dot_pz / "tmp"

    def remember(self) -> None:
        """Open the project's memory, if the run needs it.

        Raises:
            PzError: PZ0125, PZ0518, PZ0519, or a fault of the machine.
        """
        carried = self.taken_over.carried
        tasks = (node.task for node in self.plan.nodes if node.id in self.effective)
        feeds = any(isinstance(task, LandTask) and task.feed for task in tasks)
        self.memory = RunMemory.open(
            self.graph,
            self.effective,
            self.registry,
            self.run_id,
            needed=any(result.watermark for result in carried),
            feeds=feeds or any(result.feed is not None for result in carried),
            full_refresh=self.full_refresh,
        )
        if self.memory is None:
            return
        self.notices.extend(self.memory.notices)
        if self.memory.store is not None:
            store_what_is_missing(self.project.root, self.memory.store)
            self.recorder = RunRecorder(self.memory.store, self.run_id)
            if self.project.state.events:
                self.observers = (*self.observers, StoredEvents(self.recorder))

    def open(self) -> None:
        """Make and lock the run's directory, and store the run as one that goes on where runs are stored."""
        self.directory.mkdir(parents=True, exist_ok=False)
        self.made = True
        self.lock.take()
        if self.full_refresh:
            self.results.remark(fullRefresh=True)
        if not self.advances:
            self.results.remark(advances=False)
        if self.taken_over.run_id:
            self.results.remark(retryOf=self.taken_over.run_id)
        if self.recorder is not None:
            self.results.remark(store=self.recorder.store.identity())
        carried = (result.id for result in self.taken_over.carried)
        used = connections_of(self.graph, self.effective.union(carried), self.registry)
        if used:
            self.results.remark(connections=used)
        given = vars_hash(self.project)
        if given is not None:
            self.results.remark(varsHash=given)
        if self.project.outside_vars:
            self.results.remark(givenVars=sorted(self.project.outside_vars))
        for result in self.taken_over.carried:
            if result.feed is not None:
                self.token_file.keep(result.id, result.feed)
        self.results.start()
        self.temp.mkdir(parents=True, exist_ok=True)
        if self.recorder is not None:
            self.recorder.begin(self.results.document(RUNNING))

    def withdraw(self) -> None:
        """After :meth:`open` failed: leave no half-made run behind, and touch nobody else's."""
        if self.made:
            self.lock.release()
            shutil.rmtree(self.directory, ignore_errors=True)

    # --- the run itself ------------------------------------------------------------------------------------------

    def carry_out(self) -> RunResult:
        bus = EventBus(self.observers)
        self.bus = bus
        bus.publish(
            RunStarted(
                at=now_stamp(), run_id=self.run_id, project_name=self.project.name, node_count=len(self.effective)
            )
        )
        carried = self.taken_over.carried
        for result in carried:
            self._ended(result)
        outcome, fatal = Outcome(), False
        engine: Engine | None = None
        try:
            engine = self._engine()
            outcome, fatal = self._dispatch(engine)
        except Exception as error:  # noqa: BLE001 - an engine can raise anything; the run ends in order all the same
            fatal = True
            self.errors.append(unexpected(error))
            outcome = self._scheduler(None).surrender()
        self._close(engine, outcome.abandoned)
        outcome.results[:0] = carried
        status = _status(outcome, fatal)
        return Ending(
            run_id=self.run_id,
            graph=self.graph,
            bus=bus,
            results=self.results,
            notices=self.notices,
            errors=self.errors,
            memory=self.memory if self.advances else None,
            full_refresh=self.full_refresh,
            temp=self.temp,
            temp_base=self.temp_base,
            began=self.began,
            recorder=self.recorder,
        ).finish(outcome, status)

    def _import_ahead(self) -> None:
        """Import what the connectors of this run need for their places, while DuckDB does its part.

        A module that cannot be imported is told by whoever needs it.
        """
        names = dict.fromkeys(name for node in self.plan.nodes if node.id in self.effective for name in node.imports)

        def work() -> None:
            for name in names:
                with suppress(Exception):
                    import_module(name)

        if names:
            Thread(target=work, name="pz-import-ahead", daemon=True).start()

    def _engine(self) -> Engine:
        config = self.project.engine
        settings = EngineSettings(
            staging_path=str(self.directory / "staging.duckdb"),
            temp_directory=str(self.temp),
            memory_limit=config.memory_limit,
            threads=config.duckdb_threads,
            batch_bytes=config.batch_bytes,
            run_id=self.run_id,
            started_at=self.started_at,
            ahead=tuple(dict.fromkeys(s for node in self.plan.nodes if node.id in self.effective for s in node.ahead)),
        )
        self._import_ahead()
        made: Engine = self.registry.load("engine", config.name)(settings, RunHost(self.project, self.registry))
        return made

    def _dispatch(self, engine: Engine) -> tuple[Outcome, bool]:
        memory = self.memory
        reads = None
        ledgers = Ledgers(
            self.plan,
            self.effective,
            engine,
            run_id=self.run_id,
            started_at=self.started_at,
            carries_on=self.taken_over.run_id or None,
            full_refresh=self.full_refresh,
        )
        ledgers.open(_nothing_stored if memory is None else memory.watermarks.of, self.token)
        self.notices.extend(ledgers.notices)
        if memory is not None:
            reads = memory.reads(
                self.graph,
                self.registry,
                full_refresh=self.full_refresh,
                started_at=self.started_at,
                ledgers=ledgers,
            )
        earlier = self.taken_over
        runner = NodeRunner(
            self.plan,
            engine,
            self.run_id,
            self.bus.publish,
            self._breakers(),
            Memory(
                reads,
                None if memory is None else memory.tokens,
                self.token_file,
                None if memory is None else memory.drift,
                earlier.reads,
                earlier.begun,
                earlier.run_id,
                ledgers,
            ),
            earlier.deliveries,
            self._passing(),
        )
        scheduler = self._scheduler(runner)
        fatal = False
        try:
            outcome = scheduler.dispatch()
        except Exception as error:  # noqa: BLE001 - a fault of the dispatcher keeps what ended so far
            fatal = True
            self.errors.append(unexpected(error))
            outcome = scheduler.surrender()
        self.notices.extend(runner.notices)
        if memory is not None and memory.drift is not None:
            self.notices.extend(memory.drift.notices)
        return outcome, fatal

    def _passing(self) -> frozenset[str]:
        """A retry goes on from what the run before it has staged, so it stages, too."""
        return frozenset() if self.taken_over.run_id else self.effective

    def _scheduler(self, runner: NodeRunner | None) -> Scheduler:
        works = []
        plans, passing = {node.id: node for node in self.plan.nodes}, self._passing()
        for node in self.graph.nodes:
            if node.id in self.effective:
                connection = getattr(node, "connection", None)
                into = plans[node.id].passes_into
                if into is not None and into.sink not in passing:
                    into = None
                along = () if into is None else (into.pipeline, into.sink)
                beside = None if into is None else getattr(self.graph.node(into.sink), "connection", None)
                kind = node.kind
                works.append(
                    Work(node.id, node.name, kind.value, kind.rank, node.depends_on, connection, beside, along)
                )
        return Scheduler(
            works,
            threads=self.project.engine.threads,
            run=runner or _no_engine,
            cancel=self.token,
            caps=self.plan.max_concurrency,
            started=self._started,
            ended=self._ended,
            unrun=(lambda work: None) if runner is None else runner.unrun,
            fail_fast=self.fail_fast,
            node_timeout_ms=self.project.engine.node_timeout_ms,
        )

    def _breakers(self) -> dict[str, Breaker]:
        settings = self.project.engine.breaker
        if settings is None:
            return {}
        return {
            name: Breaker(settings, breaker_listener(name, self.run_id, self.bus.publish))
            for name in self.project.connections
        }

    def _started(self, work: Work) -> None:
        self.bus.publish(
            NodeStarted(at=now_stamp(), run_id=self.run_id, node_id=work.id, kind=work.kind, name=work.name)
        )

    def _ended(self, result: NodeResult) -> None:
        if result.error is not None:
            self.errors.append(result.error)
        self.results.add(result)
        if self.recorder is not None:
            self.recorder.add(result.as_dict())
        self.bus.publish(node_completed(result, self.run_id))

    def _close(self, engine: Engine | None, abandoned: bool) -> None:
        """Close the engine; where a node was given up, that may hang and is waited for only so long."""
        if engine is None:
            return
        failures: list[Exception] = []

        def close() -> None:
            try:
                engine.close()
            except Exception as error:  # noqa: BLE001 - all nodes have ended; this can only be told
                failures.append(error)

        if abandoned:
            thread = Thread(target=close, name="pz-close", daemon=True)
            thread.start()
            thread.join(CLOSE_SECONDS)
        else:
            close()
        for error in failures:
            self.notices.append(Notice("warning", f"closing the engine raised {type(error).__name__}"))


def _nothing_stored(dataset: str) -> Stored | None:
    return None


def _no_engine(running: Any) -> NodeResult:
    raise AssertionError("nothing is dispatched without an engine")


def _status(outcome: Outcome, fatal: bool) -> str:
    statuses = {result.status for result in outcome.results}
    if fatal:
        return "fatal"
    if outcome.interrupted and statuses - {"success"}:
        return "completed_with_failures" if outcome.failed_before else "fatal"
    return "completed_with_failures" if "failed" in statuses else "success"
