"""Does the work of one node: its attempts, its waiting, and what its result says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from pz_core.compile.model import Graph, SinkNode
from pz_core.contract.connector import ConnectorError
from pz_core.contract.engine import (
    Cancelled,
    CheckOutcome,
    CheckTask,
    Delivery,
    DrainResult,
    DrainTask,
    Earlier,
    Engine,
    LandTask,
    MaterialiseTask,
    PartitionCounts,
    Progress,
    TaskWarning,
)
from pz_core.contract.events import (
    Event,
    MergeKeyDuplicatesDetected,
    NodeProgress,
    NodeWarning,
    RetryScheduled,
)
from pz_core.errors import Notice, PzError, Where, one_line
from pz_core.plan.model import NodePlan, Plan, RetryPolicy
from pz_core.run.breaker import Breaker, Ticket
from pz_core.run.cancel import CancelToken, monotonic_ms
from pz_core.run.checks import refuse_violations
from pz_core.run.drift import DriftRefused
from pz_core.run.faults import node_fault
from pz_core.run.ledger import Ledgers
from pz_core.run.loads import Done, Memory, SourceLoads, disagree
from pz_core.run.passing import Moves
from pz_core.run.results import NodeResult
from pz_core.run.retry import delay_ms
from pz_core.run.reuse import ALREADY_DELIVERED, REUSED
from pz_core.run.runid import now_stamp
from pz_core.run.scheduler import Running, Work

#: Progress is told after so many batches.
PROGRESS_BATCHES = 10
#: How often a node waits for its connection's breaker before it fails.
BREAKER_WAITS = 2


class _Control:
    """What a running task is given."""

    def __init__(self, runner: NodeRunner, node: NodePlan, token: CancelToken, attempt: int) -> None:
        self.attempt = attempt
        self._runner, self._node, self._token = runner, node, token
        self._told = 0

    def progress(self, rows: int, bytes: int, batches: int) -> None:
        if batches - self._told >= PROGRESS_BATCHES:
            self._told = batches
            at, run_id = now_stamp(), self._runner.run_id
            id, name = self._node.id, self._node.name
            self._runner.publish(
                NodeProgress(at=at, run_id=run_id, node_id=id, name=name, rows=rows, bytes=bytes, batches=batches)
            )

    def raise_if_cancelled(self) -> None:
        if self._token.cancelled:
            raise Cancelled

    def on_cancel(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        return self._token.on_cancel(interrupt)


class NodeRunner:
    """Runs nodes of a plan on an engine.

    Args:
        plan: what to do.
        engine: who does it.
        run_id: of the run.
        publish: where events go.
        breakers: by connection, where the project asks for them.
        memory: what the run remembers of earlier ones.
        deliveries: deliveries of the run that is retried that broke off, by node.
        passing: ids of the nodes that may take part in rows passing straight through.
    """

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        run_id: str,
        publish: Callable[[Event], None],
        breakers: Mapping[str, Breaker] | None = None,
        memory: Memory | None = None,
        deliveries: Mapping[str, tuple[Earlier, ...]] | None = None,
        passing: frozenset[str] = frozenset(),
    ) -> None:
        self.run_id = run_id
        self.publish = publish
        self.notices: list[Notice] = []
        self._graph: Graph = plan.graph
        self._plans = {node.id: node for node in plan.nodes}
        self._engine = engine
        self._breakers = dict(breakers or {})
        memory = memory or Memory()
        self._reads = memory.reads
        self._deliveries = dict(deliveries or {})
        self._loads = SourceLoads(plan.graph, engine, run_id, publish, self.notices.append, memory)
        self._ledgers = memory.ledgers or Ledgers(plan, frozenset(), engine, run_id=run_id, started_at="")
        self._staged: dict[str, int] = {}
        self._moves = Moves({id: node for id, node in self._plans.items() if id in passing}, engine, run_id)

    def __call__(self, running: Running) -> NodeResult:
        """Run a node to its end; whatever happens becomes its result."""
        node = self._plans[running.work.id]
        began = monotonic_ms()
        result = NodeResult(node.id, node.kind, node.name, "success")
        try:
            done = self._attempts(node, running)
        except Cancelled:
            result = self._stopped(result, running)
        except PzError as error:
            cut_off = running.token.cancelled and error.code in ("PZ0500", "PZ0501")
            result = self._stopped(result, running) if cut_off else self._failed(result, error)
        except Exception as error:  # noqa: BLE001 - a plugin can raise anything; it is the node's failure and no more
            result = self._stopped(result, running) if running.token.cancelled else self._failed(result, error)
        else:
            result = self._succeeded(node, done)
            result = replace(result, along=self._along(node))
        return replace(result, duration_ms=monotonic_ms() - began)

    def unrun(self, work: Work) -> NodeResult | None:
        """The result of a node that will not run: failed, if the commit of its load was tried all the same."""
        fault = self._moves.fault(work.id)
        if fault is None:
            return None
        return self._failed(NodeResult(work.id, work.kind, work.name, "success"), fault)

    # --- ends ----------------------------------------------------------------------------------------------------

    def _succeeded(self, node: NodePlan, done: Done) -> NodeResult:
        self._warn(node, done.warnings)
        timings = None
        if done.stalls is not None:
            timings = {"producerStallMs": done.stalls.producer_ms, "consumerStallMs": done.stalls.consumer_ms}
        result = replace(
            NodeResult(node.id, node.kind, node.name, "success"),
            rows=done.rows,
            accounting=done.accounting,
            timings=timings,
            watermark=done.watermark,
            caught_up=done.caught_up,
            observed_schema=None if done.observed is None else done.observed.as_dict(),
            read=done.read,
            choices=done.choices,
            provenance=done.provenance,
            partitions=None if done.partitions is None else _counts(done.partitions),
            delivery=done.delivery,
            feed=done.feed,
            cdc=done.cdc,
        )
        if done.earlier is not None:
            result = replace(result, provenance=REUSED, observed_schema=done.earlier.observed_schema)
        return result

    def _along(self, node: NodePlan) -> tuple[NodeResult, ...]:
        """The results of the view and the sink that a source's rows have passed through, the last of which may fail."""
        moved = self._moves.taken(node.id)
        if moved is None:
            return ()
        view, sink, made, drained = moved
        self.notices.extend(made.notices)
        first = self._succeeded(view, Done(0, {}))
        try:
            second = self._succeeded(sink, self._drained(sink, drained))
        except PzError as error:
            second = self._failed(NodeResult(sink.id, sink.kind, sink.name, "success"), error)
        return first, second

    def _failed(self, result: NodeResult, error: BaseException) -> NodeResult:
        rows = getattr(error, "violations", 0)
        seen = error.observed.as_dict() if isinstance(error, DriftRefused) else None
        reached = Progress.of(error)
        return replace(
            result,
            status="failed",
            rows=rows,
            error=node_fault(error, result.name),
            observed_schema=seen,
            partitions=_counts(reached) if isinstance(reached, PartitionCounts) else None,
            delivery=_delivery(reached) if isinstance(reached, Delivery) else None,
        )

    def _stopped(self, result: NodeResult, running: Running) -> NodeResult:
        if not running.timed_out:
            return replace(result, status="skipped")
        error = PzError(
            "PZ0525",
            f"{result.name} took longer than engine.node_timeout ({running.timeout_ms}ms)",
            where=Where(node=result.name),
            hint="raise engine.node_timeout, or make the node do less",
        )
        return replace(result, status="failed", error=error)

    def _warn(self, node: NodePlan, warnings: tuple[TaskWarning, ...]) -> None:
        at = now_stamp()
        for warning in warnings:
            self.notices.append(Notice("warning", warning.message, warning.code, Where(node=node.name)))
            if warning.code == "PZ0522" and isinstance(node.task, DrainTask):
                self.publish(
                    MergeKeyDuplicatesDetected(
                        at=at,
                        run_id=self.run_id,
                        node_id=node.id,
                        output=node.name,
                        keys=node.task.write.keys,
                        duplicate_groups=warning.fields.get("duplicateGroups", 0),
                        extra_rows=warning.fields.get("extraRows", 0),
                    )
                )
            else:
                self.publish(
                    NodeWarning(
                        at=at,
                        run_id=self.run_id,
                        node_id=node.id,
                        name=node.name,
                        code=warning.code,
                        message=warning.message,
                    )
                )

    # --- attempts ------------------------------------------------------------------------------------------------

    def _attempts(self, node: NodePlan, running: Running) -> Done:
        policy = node.retry or RetryPolicy(max_attempts=1)
        breaker = self._breakers.get(running.work.connection or "")
        waits_left = BREAKER_WAITS
        attempt = 1
        while True:
            ticket: Ticket | None = None
            if breaker is not None:
                ticket, waits_left = self._admitted(node, running, breaker, waits_left)
            try:
                running.attempt_begins()
                try:
                    done = self._once(node, running.token, attempt)
                finally:
                    running.attempt_ends()
            except ConnectorError as error:
                self._tell(breaker, ticket, error)
                if not error.transient or attempt >= policy.max_attempts or running.token.cancelled:
                    raise
                self._wait(node, running.token, policy, attempt, error)
                attempt += 1
                continue
            except BaseException:
                if breaker is not None and ticket is not None:
                    breaker.ended(ticket)
                raise
            if breaker is not None and ticket is not None:
                breaker.succeeded(ticket)
            return done

    def _tell(self, breaker: Breaker | None, ticket: Ticket | None, error: ConnectorError) -> None:
        if breaker is None or ticket is None:
            return
        if error.transient:
            breaker.failed(ticket, error.retry_after)
        else:
            breaker.ended(ticket)

    def _admitted(self, node: NodePlan, running: Running, breaker: Breaker, waits: int) -> tuple[Ticket, int]:
        while True:
            answer = breaker.admit()
            if isinstance(answer, Ticket):
                return answer, waits
            if waits == 0:
                raise PzError(
                    "PZ0506",
                    f"{node.name}: connection '{running.work.connection}' failed so often that its breaker is open",
                    hint="once the place is well again, pz retry takes this node up",
                )
            waits -= 1
            if running.token.wait(answer / 1000):
                raise Cancelled

    def _wait(
        self, node: NodePlan, token: CancelToken, policy: RetryPolicy, attempt: int, error: ConnectorError
    ) -> None:
        length = delay_ms(policy, attempt, error.retry_after)
        self.publish(
            RetryScheduled(
                at=now_stamp(),
                run_id=self.run_id,
                node_id=node.id,
                name=node.name,
                attempt=attempt,
                max_attempts=policy.max_attempts,
                delay_ms=length,
                reason=one_line(error.message),
            )
        )
        if token.wait(length / 1000):
            raise Cancelled

    # --- one attempt ---------------------------------------------------------------------------------------------

    def _once(self, node: NodePlan, token: CancelToken, attempt: int) -> Done:
        control = _Control(self, node, token, attempt)
        control.raise_if_cancelled()
        task = node.task
        if isinstance(task, LandTask):
            passed = self._moves.attempt(node, task, control, self.notices.append)
            return self._loads.land(node, task, control) if passed is None else self._loads.passed(node, task, passed)
        if isinstance(task, MaterialiseTask):
            if self._reads is not None:
                task = replace(task, sql=self._reads.sql(task.sql))
            made = self._engine.materialise(task, control)
            self.notices.extend(made.notices)
            if made.rows is not None:
                self._staged[node.id] = made.rows
            return Done(made.rows or 0, {} if made.rows is None else {"staged": made.rows})
        if isinstance(task, CheckTask):
            return self._checked(task, self._engine.check(task, control))
        fault = self._moves.fault(node.id)
        if fault is not None:
            raise fault
        spec = replace(task.write, run_id=self.run_id, attempt=attempt)
        written = replace(task, write=spec, earlier=self._deliveries.get(node.id, ()))
        if written.ledger is not None:
            written = replace(written, ledger=self._ledgers.claim(node.id, control))
        return self._drained(node, self._engine.drain(written, control))

    def _checked(self, task: CheckTask, outcome: CheckOutcome) -> Done:
        refuse_violations(task, outcome)
        return Done(0)

    def _drained(self, node: NodePlan, drained: DrainResult) -> Done:
        if drained.delivered_by is not None:
            return self._delivered_before(node, drained, drained.delivered_by)
        account = {"staged": drained.rows_staged, "written": drained.rows_written, "rejected": 0}
        if drained.deletes:
            account["deletes"] = drained.deletes
        sink = self._graph.node(node.id)
        if isinstance(sink, SinkNode):
            held = next((self._staged[p] for p in sink.depends_on if p in self._staged), drained.rows_staged)
            if held != drained.rows_staged:
                raise disagree(node, f"{held} in staging.{sink.pipeline}, {drained.rows_staged} handed to the target")
            # A strategy with keys decides row by row what the target takes; without keys every row must arrive.
            if not sink.keys and drained.rows_written != drained.rows_staged:
                raise disagree(node, f"{drained.rows_staged} staged, {drained.rows_written} written")
        stalls = drained.stalls if drained.tier == "universal" else None
        delivery = None if drained.delivery is None else _delivery(drained.delivery)
        choices = drained.choices or None
        return Done(drained.rows_written, account, stalls, drained.warnings, delivery=delivery, choices=choices)

    def _delivered_before(self, node: NodePlan, drained: DrainResult, by: str) -> Done:
        """The target has the batch, as its ledger says; an attempt of this very run may have written it."""
        own = by == self.run_id
        who = "an attempt of this run whose answer was lost" if own else f"run {by}"
        message = f"{node.name}: the target has these rows already, written by {who}; nothing is written again"
        self.notices.append(Notice("note", message, where=Where(node=node.name)))
        written = drained.rows_staged if own else 0
        account = {"staged": drained.rows_staged, "written": written, "rejected": 0}
        if not own:
            account["skipped"] = drained.rows_staged
        return Done(written, account, warnings=drained.warnings, provenance=None if own else ALREADY_DELIVERED)


def _counts(counts: PartitionCounts) -> dict[str, int]:
    return {"total": counts.total, "completed": counts.completed, "reused": counts.reused, "resumed": 0}


def _delivery(delivery: Delivery) -> dict[str, Any]:
    made: dict[str, Any] = {"abort_semantics": delivery.abort_semantics}
    if delivery.rows_visible is not None:
        made["rows_visible"] = delivery.rows_visible
    if delivery.resumed_rows is not None:
        made["resumed_rows"] = delivery.resumed_rows
    return made
