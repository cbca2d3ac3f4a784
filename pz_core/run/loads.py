"""Lands the sources of one run: where a read starts from, what an earlier run has of it, columns that drift."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pz_core.compile.model import Graph, SourceNode
from pz_core.contract.engine import (
    ChangeCounts,
    Control,
    Earlier,
    Engine,
    LandResult,
    LandTask,
    NotReusable,
    PartitionCounts,
    Stalls,
    TaskWarning,
)
from pz_core.contract.events import Event, SourceDriftDetected
from pz_core.errors import Notice, PzError, Where
from pz_core.plan.model import NodePlan
from pz_core.run.drift import DriftGate, Observed, observe
from pz_core.run.feeds import Candidate, TokenFile, Tokens
from pz_core.run.incremental import IncrementalReads
from pz_core.run.ledger import Ledgers
from pz_core.run.reuse import EarlierRead, not_reused, read_facts, reuse_read
from pz_core.run.runid import now_stamp


class Done(Struct, frozen=True):
    """What an attempt that went well gave."""

    rows: int
    accounting: Mapping[str, int] | None = None
    stalls: Stalls | None = None
    warnings: tuple[TaskWarning, ...] = ()
    watermark: Mapping[str, Any] | None = None
    caught_up: bool | None = None
    observed: Observed | None = None
    read: Mapping[str, Any] | None = None
    earlier: EarlierRead | None = None
    partitions: PartitionCounts | None = None
    delivery: Mapping[str, Any] | None = None
    feed: Candidate | None = None
    provenance: str | None = None
    choices: Mapping[str, str] | None = None
    cdc: Mapping[str, Any] | None = None


class Memory(Struct, frozen=True):
    """What the loads of a run remember and look at; all of it optional.

    Args:
        reads: how incremental datasets are read.
        tokens: where feeds go on from.
        token_file: where feeds ended.
        drift: who compares the columns of datasets without a contract.
        earlier: reads of the run that is retried, by node, whose rows are copied instead.
        begun: reads of that run that failed midway, by node.
        from_run: id of the run that is retried.
        ledgers: of the run's outputs, told of what landed of incremental datasets.
    """

    reads: IncrementalReads | None = None
    tokens: Tokens | None = None
    token_file: TokenFile | None = None
    drift: DriftGate | None = None
    earlier: Mapping[str, EarlierRead] | None = None
    begun: Mapping[str, Earlier] | None = None
    from_run: str = ""
    ledgers: Ledgers | None = None


class SourceLoads:
    """Lands sources; safe to use from several threads.

    Args:
        graph: of the project.
        engine: who lands.
        run_id: of the run.
        publish: where events go.
        note: where notices go.
        memory: of the run.
    """

    def __init__(
        self,
        graph: Graph,
        engine: Engine,
        run_id: str,
        publish: Callable[[Event], None],
        note: Callable[[Notice], None],
        memory: Memory,
    ) -> None:
        self._graph, self._engine, self._run_id = graph, engine, run_id
        self._publish, self._note = publish, note
        self._memory = memory
        self._earlier = dict(memory.earlier or {})
        self._begun = dict(memory.begun or {})

    def land(self, node: NodePlan, task: LandTask, control: Control) -> Done:
        """One attempt to land a source.

        Raises:
            PzError: whatever engine, state or drift have against it.
        """
        source = self._graph.node(node.id)
        assert isinstance(source, SourceNode)  # nothing else is landed
        reused = self._reused(node, source, task, control)
        reads = self._memory.reads
        base = None if reads is None else reads.base(source.dataset)
        ledgers = self._memory.ledgers
        if reused is not None:
            if ledgers is not None and reads is not None and source.incremental is not None:
                ledgers.landed(source, base, reused.watermark, reads.nulls(source.dataset))
            return reused
        task = self._resuming(source, task)
        facts = read_facts(task, source.incremental, base)

        def land(asked: LandTask) -> LandResult:
            return self._landed_rest(node, source, asked, control)

        if source.incremental is None or reads is None:
            result = land(task)
            if source.sync is not None and source.sync.mode == "cdc" and result.changes is None:
                raise PzError(
                    "PZ0501",
                    f"{source.dataset}: this engine does not carry out a change capture",
                    hint="read the dataset in full, or with a cursor: sync: {mode: incremental, cursor: …}",
                )
            done = replace(_done(node, result), observed=self._compare(node, source, task, result), read=facts)
            return self._with_token(node, task, result, done)
        landed = reads.land(source, task, land)
        done = _done(node, landed.result)
        seen = self._compare(node, source, task, landed.result)
        for notice in landed.notices:
            self._note(notice)
        if ledgers is not None:
            ledgers.landed(source, base, landed.watermark, reads.nulls(source.dataset))
        return replace(done, watermark=landed.watermark, caught_up=landed.caught_up, observed=seen, read=facts)

    def passed(self, node: NodePlan, task: LandTask, landed: LandResult) -> Done:
        """The account of rows that passed straight into a sink: all were read, and none was staged."""
        source = self._graph.node(node.id)
        assert isinstance(source, SourceNode)  # nothing else is landed
        account = {"read": landed.rows_read, "staged": 0, "passed": landed.rows_read, "rejected": 0}
        facts = read_facts(task, source.incremental, None)
        return Done(landed.rows_read, account, read=facts, choices=landed.choices or None)

    # --- parts ---------------------------------------------------------------------------------------------------

    def _reused(self, node: NodePlan, source: SourceNode, task: LandTask, control: Control) -> Done | None:
        """The rows of the run that is retried, if they can be had; asked for once, whatever comes of it."""
        earlier = self._earlier.pop(node.id, None)
        if earlier is None:
            return None
        ledgers = self._memory.ledgers
        against = None if ledgers is None else ledgers.against(source.dataset, earlier.watermark)
        if against is not None:
            self._note(not_reused(source, against))
            return None
        made = reuse_read(earlier, source, task, self._memory.reads, lambda asked: self._engine.land(asked, control))
        if isinstance(made, Notice):
            self._note(made)
            return None
        if earlier.feed is not None:
            self._keep_token(node, earlier.feed)
        account = {"reused": made.rows_staged, "staged": made.rows_staged, "rejected": 0}
        return Done(
            made.rows_staged,
            account,
            watermark=earlier.watermark,
            caught_up=earlier.caught_up,
            read=earlier.facts,
            earlier=earlier,
            feed=earlier.feed,
        )

    def _landed_rest(self, node: NodePlan, source: SourceNode, task: LandTask, control: Control) -> LandResult:
        """Land, on what the run that is retried has whole of it; that is looked at until it has been found unusable."""
        begun = self._begun.get(node.id)
        if begun is None:
            return self._engine.land(task, control)
        try:
            result = self._engine.land(replace(task, earlier=begun), control)
        except NotReusable as error:
            self._begun.pop(node.id, None)
            self._note(not_reused(source, str(error)))
            return self._engine.land(task, control)
        counts = result.partitions
        if counts is not None and counts.reused:
            rows = "1 row" if counts.reused_rows == 1 else f"{counts.reused_rows} rows"
            message = (
                f"{source.dataset}: {counts.reused} of {counts.total} partitions ({rows}) are reused from run "
                f"{self._memory.from_run}, {counts.total - counts.reused} were read"
            )
            self._note(Notice("note", message, where=Where(node=node.name)))
        return result

    def _resuming(self, source: SourceNode, task: LandTask) -> LandTask:
        """The task of a feed, with the token that it goes on from."""
        tokens = self._memory.tokens
        if not task.feed or tokens is None:
            return task
        if tokens.unreadable(source.dataset):
            message = f"{source.dataset}: the stored token cannot be read; it counts as nothing stored"
            self._note(Notice("note", message, where=Where(node=source.name)))
        return replace(task, read=replace(task.read, token=tokens.start(source.dataset)))

    def _with_token(self, node: NodePlan, task: LandTask, landed: LandResult, done: Done) -> Done:
        if not task.feed:
            return done
        found = Candidate(landed.token)
        self._keep_token(node, found)
        return replace(done, feed=found)

    def _keep_token(self, node: NodePlan, found: Candidate) -> None:
        if self._memory.token_file is not None:
            self._memory.token_file.keep(node.id, found)

    def _compare(self, node: NodePlan, source: SourceNode, task: LandTask, landed: LandResult) -> Observed | None:
        """Look at the columns of a dataset without a contract, where the project asks for it."""
        drift = self._memory.drift
        if drift is None or source.columns:
            return None
        seen = observe(source.dataset, task.read.hints, landed.columns)
        found = drift.compare(seen)
        if found:
            self._publish(
                SourceDriftDetected(
                    at=now_stamp(),
                    run_id=self._run_id,
                    node_id=node.id,
                    connection=source.connection,
                    entity=source.entity,
                    policy=drift.policy,
                    changes=tuple(change.as_dict() for change in found),
                    observed=tuple(seen.listed()),
                    hints_hash=seen.hints_hash,
                )
            )
            self._note(drift.judge(seen, found, node.name))
        return seen


def _done(node: NodePlan, landed: LandResult) -> Done:
    """The account of a load: what came in, and that it is all there."""
    reused = 0 if landed.partitions is None else landed.partitions.reused_rows
    account = {"read": landed.rows_read, "staged": landed.rows_staged, "rejected": 0}
    if reused:
        account["reused"] = reused
    if landed.trimmed:
        account["trimmed"] = landed.trimmed
    if landed.changes is not None:
        return _captured(node, landed, landed.changes, account)
    if landed.rows_read + reused != landed.rows_staged + landed.trimmed:
        raise disagree(node, f"{landed.rows_read} read, {landed.rows_staged} staged, {landed.trimmed} trimmed")
    stalls = landed.stalls if landed.tier == "universal" else None
    return Done(
        landed.rows_staged,
        account,
        stalls,
        landed.warnings,
        partitions=landed.partitions,
        choices=landed.choices or None,
    )


def _captured(node: NodePlan, landed: LandResult, changes: ChangeCounts, account: dict[str, int]) -> Done:
    """The account of a change capture: of the changes of a key only the last one is staged, or is a key to delete."""
    superseded = landed.rows_read - landed.rows_staged - changes.deleted_keys
    every = changes.inserts + changes.updates + changes.deletes
    if superseded < 0 or every != landed.rows_read:
        told = f"{landed.rows_read} changes read, {every} counted, {landed.rows_staged} rows and "
        raise disagree(node, f"{told}{changes.deleted_keys} keys to delete staged")
    account = {**account, "deletes": changes.deleted_keys, "superseded": superseded}
    cdc = {
        "inserts": changes.inserts,
        "updates": changes.updates,
        "deletes": changes.deletes,
        "position": changes.position,
    }
    stalls = landed.stalls if landed.tier == "universal" else None
    return Done(landed.rows_staged, account, stalls, landed.warnings, choices=landed.choices or None, cdc=cdc)


def disagree(node: NodePlan, counts: str) -> PzError:
    """PZ0811 with the counts of a node that do not add up."""
    return PzError(
        "PZ0811",
        f"{node.name}: row counts disagree: {counts}",
        hint="rows were lost or added on the way: report this to the connector's authors, and check the target",
    )
