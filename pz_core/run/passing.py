"""Moves of a run: rows that pass straight from a source into a sink.

The move is made when the source's turn comes, and its view and its sink end with it: their results are recorded
together, so that no stop of the run can come between what was committed and what is told of it. If the move does not
come off, nothing has happened yet, and the three nodes run one by one: rows are staged, so that the sink can be tried
again without reading anew. Only a commit that was tried counts as the sink's own first attempt, since the target may
have taken the rows; its fault is told even if the sink gets no other turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from pz_core.contract.engine import (
    Control,
    DrainResult,
    DrainTask,
    Engine,
    LandResult,
    LandTask,
    MaterialiseResult,
    MaterialiseTask,
    Moved,
    NotMoved,
    PassingEngine,
)
from pz_core.errors import Notice, Where
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
        self._moved: dict[str, Moved] = {}
        self._faults: dict[str, BaseException] = {}

    def attempt(
        self, node: NodePlan, task: LandTask, control: Control, note: Callable[[Notice], None]
    ) -> LandResult | None:
        """Move a source's rows, the first time that it is asked for.

        Args:
            node: the source's plan.
            task: of the source.
            control: of its attempt.
            note: where it is told that a move did not come off.

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
            if error.fault is not None:
                if error.tried:
                    self._faults[sink.id] = error.fault
                why = getattr(error.fault, "code", type(error.fault).__name__)
                message = f"{node.name}: its rows did not pass straight into {sink.name} ({why}), and are staged"
                note(Notice("note", message, where=Where(node=node.name)))
            return None
        self._moved[node.id] = moved
        return moved.landed

    def taken(self, id: str) -> tuple[NodePlan, NodePlan, MaterialiseResult, DrainResult] | None:
        """The view and the sink that ended with a source, and what became of them; ``None`` if its rows were landed."""
        moved, into = self._moved.get(id), self._plans[id].passes_into if id in self._plans else None
        if moved is None or into is None:
            return None
        return self._plans[into.pipeline], self._plans[into.sink], moved.made, moved.drained

    def fault(self, id: str) -> BaseException | None:
        """The fault of a sink's commit in a move, once."""
        return self._faults.pop(id, None)
