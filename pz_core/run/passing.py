"""Moves of a run: rows that pass straight from a source into a sink, which then has nothing left to do.

The move is made when the source's turn comes; view and sink only take over what came of it. If it does not come off,
nothing has happened yet, and the three nodes run one by one: rows are staged, so that the sink can be tried again
without reading anew. Only a commit that was tried counts as the sink's own first attempt, since the target may have
taken the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pz_core.contract.engine import (
    Control,
    DrainResult,
    DrainTask,
    Engine,
    LandResult,
    LandTask,
    MaterialiseResult,
    MaterialiseTask,
    NotMoved,
    PassingEngine,
)
from pz_core.plan.model import NodePlan


class Moves:
    """Makes the moves of one run; safe to use from several threads.

    Args:
        plans: by id, of the nodes that run.
        engine: who moves; one that cannot makes none.
        run_id: of the run.
    """

    def __init__(self, plans: Mapping[str, NodePlan], engine: Engine, run_id: str) -> None:
        self._plans, self._run_id = plans, run_id
        self._engine = engine if isinstance(engine, PassingEngine) else None
        self._tried: set[str] = set()
        self._made: dict[str, MaterialiseResult] = {}
        self._drained: dict[str, DrainResult] = {}
        self._faults: dict[str, BaseException] = {}

    def attempt(self, node: NodePlan, task: LandTask, control: Control) -> LandResult | None:
        """Move a source's rows, the first time that it is asked for.

        Returns:
            What was read, ``None`` if the source is to be landed: its rows do not pass, or did not this time.

        Raises:
            Cancelled: if told to stop.
        """
        into = node.passes_into
        if self._engine is None or into is None or node.id in self._tried:
            return None
        view, sink = self._plans.get(into.pipeline), self._plans.get(into.sink)
        if view is None or sink is None:
            return None
        make, load = view.task, sink.task
        assert isinstance(make, MaterialiseTask)  # as the planner made them
        assert isinstance(load, DrainTask)
        self._tried.add(node.id)
        load = replace(load, write=replace(load.write, run_id=self._run_id, attempt=1))
        try:
            moved = self._engine.move(task, make, load, control)
        except NotMoved as error:
            if error.tried and error.fault is not None:
                self._faults[sink.id] = error.fault
            return None
        self._made[view.id], self._drained[sink.id] = moved.made, moved.drained
        return moved.landed

    def made(self, id: str) -> MaterialiseResult | None:
        """What became of a view whose rows have passed."""
        return self._made.get(id)

    def drained(self, id: str) -> DrainResult | None:
        """What became of a sink whose rows have passed.

        Raises:
            BaseException: the fault of its commit, once: that was the sink's first attempt.
        """
        fault = self._faults.pop(id, None)
        if fault is not None:
            raise fault
        return self._drained.get(id)
