"""Ledgers of a run's outputs: read before any node, so that a slice that an output has already is read alone first.

Source: DECISIONS 4. After a crash between a target's commit and the state's advance, some outputs have rows above the
watermark. The run then reads exactly up to where they are: outputs that have those rows skip them, the others write
them, the watermark advances, and newer rows wait for the next run. So no batch ever has rows of both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from pz_core.compile.model import SinkNode, SourceNode
from pz_core.contract.engine import Cancelled, Control, DrainTask, Engine
from pz_core.contract.ledger import LedgerClaim, LedgerEngine, LedgerEntry, LedgerMark, LedgerState, refuse_other_cursor
from pz_core.errors import Notice, PzError, Where
from pz_core.plan.ledgers import incremental_above
from pz_core.plan.model import Plan
from pz_core.run.cancel import CancelToken
from pz_core.run.state import Stored
from pz_core.values.cursors import later, same_family


class Limit(Struct, frozen=True):
    """What ledgers make of the read of a dataset in this run.

    Args:
        upper: read up to here and no further, in canonical text; ``None`` for no limit.
        type: of the cursor.
        outputs: names of the outputs that have the rows up to there.
        hold: read nothing: a dataset that is loaded into the same output has to be read alone first.
        error: why the dataset must not be read at all.
    """

    upper: str | None = None
    type: str | None = None
    outputs: tuple[str, ...] = ()
    hold: bool = False
    error: PzError | None = None


NO_LIMIT = Limit()


class _Output(Struct):
    node: SinkNode
    task: DrainTask
    claim: LedgerClaim
    sources: tuple[SourceNode, ...]
    state: LedgerState | None = None
    lock: Lock = field(default_factory=Lock)


class Ledgers:
    """The ledgers of one run; safe to use from several threads.

    Args:
        plan: of the project.
        effective: ids of the run's nodes.
        engine: who asks and writes them.
        run_id: of the run.
        started_at: of the run, ISO in UTC.
        carries_on: id of the run that is retried.
        full_refresh: whether everything is read again.
    """

    def __init__(
        self,
        plan: Plan,
        effective: frozenset[str],
        engine: Engine,
        *,
        run_id: str,
        started_at: str,
        carries_on: str | None = None,
        full_refresh: bool = False,
    ) -> None:
        self.notices: list[Notice] = []
        self._engine = engine
        self._full_refresh = full_refresh
        self._limits: dict[str, Limit] = {}
        self._marks: dict[str, LedgerMark] = {}
        runs = frozenset({run_id} if carries_on is None else {run_id, carries_on})
        self._outputs: dict[str, _Output] = {}
        for planned in plan.nodes:
            node = plan.graph.node(planned.id)
            if planned.id not in effective or not isinstance(node, SinkNode) or not isinstance(planned.task, DrainTask):
                continue
            claim = planned.task.ledger
            if claim is not None:
                claim = replace(claim, run_id=run_id, runs=runs, written_at=started_at, anew=full_refresh)
                task = replace(planned.task, write=replace(planned.task.write, run_id=run_id), ledger=claim)
                self._outputs[node.id] = _Output(node, task, claim, incremental_above(plan.graph, node))

    def open(self, stored: Callable[[str], Stored | None], token: CancelToken) -> None:
        """Make and read the ledgers, and decide how far each dataset is read.

        A ledger that cannot be reached limits nothing: its output asks again when it is written, and refuses a batch of
        which the target has a part.

        Args:
            stored: the watermark of a dataset when the run began.
            token: stops it.
        """
        for output in self._outputs.values():
            try:
                self._state(output, _Control(token))
            except Cancelled:
                return
            except Exception:  # noqa: BLE001 - the output itself will say what is wrong with its target
                continue
        self._decide({} if self._full_refresh else _all_stored(self._outputs.values(), stored))

    def limit(self, dataset: str) -> Limit:
        """How far a dataset is read in this run."""
        return self._limits.get(dataset, NO_LIMIT)

    def against(self, dataset: str, watermark: Mapping[str, Any] | None) -> str | None:
        """Why rows that an earlier run has staged are not those to be loaded now, ``None`` if they are."""
        limit = self.limit(dataset)
        if limit.hold:
            return "other rows of an output that it is loaded into come first"
        if limit.upper is None or watermark is None or not later(str(limit.type), str(watermark["value"]), limit.upper):
            return None
        return f"{', '.join(limit.outputs)} has a part of these rows"

    def landed(
        self, source: SourceNode, base: Stored | None, watermark: Mapping[str, Any] | None, nulls: int = 0
    ) -> None:
        """Learn what landed of an incremental dataset.

        Args:
            source: the dataset.
            base: the watermark that it was read from.
            watermark: the one after it, as recorded.
            nulls: rows without a value in the cursor.
        """
        assert source.incremental is not None
        upper = None if watermark is None else str(watermark["value"])
        kind = None if watermark is None else str(watermark["type"])
        start = None if base is None else base.value
        cursor = source.incremental.cursor
        self._marks[source.dataset] = LedgerMark(source.dataset, cursor, kind, start, upper, nulls)

    def claim(self, id: str, control: Control) -> LedgerClaim:
        """What a load asks of its target's ledger, which is there when this returns.

        Args:
            id: of the output's node.
            control: of its task.

        Raises:
            PzError: PZ0324, and what the connector says.
        """
        output = self._outputs[id]
        self._state(output, control)
        marks = [self._marks[source.dataset] for source in output.sources if source.dataset in self._marks]
        return replace(output.claim, marks=tuple(marks))

    # --- parts ---------------------------------------------------------------------------------------------------

    def _state(self, output: _Output, control: Control) -> LedgerState:
        with output.lock:
            if output.state is None:
                if not isinstance(self._engine, LedgerEngine):
                    raise PzError(
                        "PZ0324",
                        f"{output.node.name}: engine '{self._engine.name}' keeps no ledgers, which duplicates: "
                        "'refuse' needs",
                        hint="write duplicates: 'accept', or use a strategy with keys, or engine: duckdb",
                    )
                output.state = self._engine.open_ledger(output.task, control)
            return output.state

    def _decide(self, stored: Mapping[str, Stored]) -> None:
        uppers: dict[str, tuple[LedgerEntry, tuple[str, ...]]] = {}
        holds: set[str] = set()
        for output in self._outputs.values():
            if output.state is None:
                continue
            entries = {entry.dataset: entry for entry in output.claim.live(output.state)}
            self._tell_gaps(output, entries, stored)
            ahead = [s for s in output.sources if self._is_ahead(output, s, entries.get(s.dataset), stored)]
            for source in output.sources if ahead else ():
                if source not in ahead:
                    holds.add(source.dataset)
                    continue
                entry = entries[source.dataset]
                lowest, names = uppers.get(source.dataset, (entry, ()))
                lower = entry if later(entry.type, lowest.upper, entry.upper) else lowest
                uppers[source.dataset] = (lower, (*names, output.node.name))
        if uppers and not uppers.keys() - holds:
            # Each waits for another one: the first by name goes on alone.
            first = min(uppers)
            holds = (holds | uppers.keys()) - {first}
        for dataset, (entry, names) in uppers.items():
            self._limits.setdefault(dataset, Limit(entry.upper, entry.type, names))
        for dataset in holds:
            if self.limit(dataset).error is None:
                self._limits[dataset] = Limit(hold=True)

    def _tell_gaps(self, output: _Output, entries: Mapping[str, LedgerEntry], stored: Mapping[str, Stored]) -> None:
        """Say where an output ends below the watermark: nobody reads the rows between for it."""
        for source in output.sources:
            entry, mark = entries.get(source.dataset), stored.get(source.dataset)
            if entry is None or mark is None or not same_family(entry.type, mark.type):
                continue
            if later(entry.type, mark.value, entry.upper):
                message = (
                    f"{output.node.name}: its ledger ends before the watermark of {source.dataset}: the target was set "
                    "back, or the watermark was set forward, and rows between the two do not come"
                )
                self.notices.append(
                    Notice(
                        "note",
                        message,
                        where=Where(node=output.node.name),
                        hint="set the watermark back with pz state set to have them; what outputs have is skipped",
                    )
                )

    def _is_ahead(
        self, output: _Output, source: SourceNode, entry: LedgerEntry | None, stored: Mapping[str, Stored]
    ) -> bool:
        """Whether an output has rows of a dataset above its watermark."""
        if entry is None:
            return False
        assert source.incremental is not None
        before = stored.get(source.dataset)
        try:
            mark = LedgerMark(source.dataset, source.incremental.cursor, None if before is None else before.type)
            refuse_other_cursor(output.node.name, mark, entry)
        except PzError as error:
            self._limits[source.dataset] = Limit(error=error)
            return False
        return before is None or later(entry.type, entry.upper, before.value)


def _all_stored(outputs: Any, stored: Callable[[str], Stored | None]) -> dict[str, Stored]:
    datasets = {source.dataset for output in outputs for source in output.sources}
    return {dataset: found for dataset in datasets if (found := stored(dataset)) is not None}


class _Control:
    """What asking a ledger is given before there are nodes."""

    attempt = 1

    def __init__(self, token: CancelToken) -> None:
        self._token = token

    def progress(self, rows: int, bytes: int, batches: int) -> None:
        """Nothing is told."""

    def raise_if_cancelled(self) -> None:
        if self._token.cancelled:
            raise Cancelled

    def on_cancel(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        return self._token.on_cancel(interrupt)
