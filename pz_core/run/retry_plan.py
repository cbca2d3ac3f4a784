"""Which run is retried, which of its nodes run again, and what is taken over from it.

Sources: engine.md 1.12, DECISIONS 10. A node that was edited since is found by its kind and name; what is taken over
asks for unchanged ids, so that rows and results belong to what the project says now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pz_core.compile.cursors import canonical_cursor, later
from pz_core.compile.model import Graph, Node, SinkNode, SourceNode
from pz_core.contract.engine import LandTask, Reuse
from pz_core.contract.state import StateEntry
from pz_core.errors import Notice, PzError, Where
from pz_core.plan.model import Plan
from pz_core.plugins import Registry
from pz_core.run.history import list_runs, runs_dir
from pz_core.run.results import RUNNING, NodeRecord, NodeResult, RunRecord
from pz_core.run.reuse import (
    CARRIED_FORWARD,
    EarlierRead,
    TakenOver,
    ancestry,
    lacks,
    not_reused,
    read_facts,
)
from pz_core.run.state import WATERMARKS, Stored, family, open_state, stored_watermark

_SUCCESS = "success"
_RETRIABLE = "completed_with_failures"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Nodes of the project that failed or were skipped in the run before.

    Args:
        ids: of the project as it is now.
        notices: nodes that were edited since, and nodes that are gone.
    """

    ids: frozenset[str]
    notices: tuple[Notice, ...] = ()


def run_to_retry(root: Path) -> RunRecord:
    """The newest run of a project, if it is one that ended in order.

    Args:
        root: folder of the project.

    Raises:
        PzError: PZ0502 without a run that can be read, PZ0503 if the newest has not ended, PZ0504 if it ended fatally.
    """
    newest = next(iter(list_runs(root)), None)
    if newest is None:
        raise PzError("PZ0502", "there is no run to retry", hint="start with pz run")
    if newest.record is None:
        raise PzError(
            "PZ0502",
            f"run {newest.run_id}, the newest, has results that cannot be read",
            hint="start over with pz run",
        )
    if newest.status == RUNNING:
        what = "is still going on" if newest.live else "was killed before its end, so what it delivered is not known"
        hint = "wait until it has ended" if newest.live else "start over with pz run"
        raise PzError("PZ0503", f"run {newest.run_id} {what}", hint=hint)
    if newest.status not in (_SUCCESS, _RETRIABLE):
        raise PzError(
            "PZ0504",
            f"run {newest.run_id} ended as {newest.status}: its results are nothing to go on from",
            hint="start over with pz run",
        )
    return newest.record


def succeeded(record: RunRecord) -> bool:
    """Whether a run left nothing to retry."""
    return record.status == _SUCCESS


def choose(graph: Graph, record: RunRecord) -> Chosen:
    """Find the failed and skipped nodes of a run in the project as it is now.

    Args:
        graph: of the project.
        record: of the run.
    """
    now = {(node.kind.value, node.name): node for node in graph.nodes}
    ids: set[str] = set()
    notices: list[Notice] = []
    for key, recorded in _recorded(record).items():
        if recorded.status == _SUCCESS:
            continue
        node = now.get(key)
        if node is None:
            notices.append(_note(f"{recorded.name}, which {recorded.status}, is no longer in the project", key[1]))
            continue
        if node.id != recorded.id:
            notices.append(_note(f"{node.name} has changed since run {record.run_id}; it runs as it is now", key[1]))
        ids.add(node.id)
    return Chosen(frozenset(ids), tuple(notices))


def take_over(
    plan: Plan, effective: frozenset[str], record: RunRecord, registry: Registry, *, full_refresh: bool
) -> tuple[TakenOver, tuple[Notice, ...]]:
    """Decide what a retry has from the run before it.

    Args:
        plan: of the project.
        effective: ids of the nodes that will run.
        record: of the run before.
        registry: where plugins are found.
        full_refresh: read everything again: only values that are still to be stored are taken over then.

    Returns:
        What is taken over, and what to tell.

    Raises:
        PzError: PZ0125, PZ0518 or PZ0519 if the state has to be looked at and cannot be.
    """
    graph = plan.graph
    earlier = _Earlier(graph, record)
    stored = _stored(graph, record, registry)
    notices: list[Notice] = []
    reads: dict[str, EarlierRead] = {}
    carried: list[NodeResult] = []
    if not full_refresh:
        for node in graph.nodes:
            if isinstance(node, SourceNode) and node.id in effective:
                found = _read(plan, node, earlier, stored, notices)
                if found is not None:
                    reads[node.id] = found
        carried += _sinks(graph, effective, earlier, lambda sources: bool(sources) and sources <= reads.keys())
    due, told = _due(graph, effective, earlier, stored)
    notices += told
    have = {result.id for result in carried}
    for source in due.values():
        carried.append(earlier.carried(source, watermark=True))
    if due:
        # These have the rows behind the value; what else they read does not matter: nothing is read anew for them.
        delivered = _sinks(graph, effective, earlier, lambda sources: not due.keys().isdisjoint(sources))
        carried += [result for result in delivered if result.id not in have]
    order = {node.id: index for index, node in enumerate(graph.nodes)}
    carried.sort(key=lambda result: order[result.id])
    notices += _summary(record, len(reads), carried)
    return TakenOver(record.run_id, reads, tuple(carried)), tuple(notices)


class _Earlier:
    """What the run before recorded, by nodes of the project as it is now; a node that was edited has nothing there."""

    def __init__(self, graph: Graph, record: RunRecord) -> None:
        self.record = record
        self.staging = runs_dir(graph.project.root) / record.run_id / "staging.duckdb"
        self._graph = graph
        self._by_name = _recorded(record)
        self._by_id = {recorded.id: recorded for recorded in reversed(record.nodes)}  # of two, the first counts

    def done(self, node: Node) -> NodeRecord | None:
        """The record of a node that succeeded and has not changed."""
        found = self._by_id.get(node.id)
        return found if found is not None and found.status == _SUCCESS and found.kind == node.kind.value else None

    def edited(self, node: Node) -> bool:
        """Whether a node of this kind and name succeeded, and is another one now."""
        found = self._by_name.get((node.kind.value, node.name))
        return found is not None and found.status == _SUCCESS and found.id != node.id

    def carried(self, node: Node, *, watermark: bool = False) -> NodeResult:
        """The result of a node that is taken as it was."""
        recorded = self.done(node)
        assert recorded is not None  # looked at before
        return NodeResult(
            node.id,
            node.kind.value,
            node.name,
            "success",
            rows=recorded.rows,
            provenance=CARRIED_FORWARD,
            watermark=_mapping(recorded.raw.get("watermark")) if watermark else None,
            observed_schema=_mapping(recorded.raw.get("observed_schema")),
            read=_mapping(recorded.raw.get("read")),
            ancestry=ancestry(self._graph, node.id) if isinstance(node, SinkNode) else None,
        )

    def same_above(self, sink: SinkNode) -> bool:
        """Whether everything above an output is what its rows came from."""
        recorded = self.done(sink)
        if recorded is None:
            return False
        if recorded.provenance == CARRIED_FORWARD:
            # Pipelines between were not run for it, so that only this says what its rows came from.
            return bool(recorded.raw.get("ancestry") == ancestry(self._graph, sink.id))
        return all(self.done(self._graph.node(id)) is not None for id in self._graph.ancestors(sink.id))


def _recorded(record: RunRecord) -> dict[tuple[str, str], NodeRecord]:
    made: dict[tuple[str, str], NodeRecord] = {}
    for node in record.nodes:
        made.setdefault((node.kind, node.name), node)
    return made


def _sources_above(graph: Graph, id: str) -> frozenset[str]:
    return frozenset(i for i in graph.ancestors(id) if isinstance(graph.node(i), SourceNode))


def _sinks(
    graph: Graph, effective: frozenset[str], earlier: _Earlier, fits: Callable[[frozenset[str]], bool]
) -> list[NodeResult]:
    """Outputs outside the run that were written, with nothing above them changed; ``fits`` judges their sources."""
    return [
        earlier.carried(node)
        for node in graph.nodes
        if isinstance(node, SinkNode)
        and node.id not in effective
        and earlier.same_above(node)
        and fits(_sources_above(graph, node.id))
    ]


# --- reads -----------------------------------------------------------------------------------------------------------


def _read(
    plan: Plan, node: SourceNode, earlier: _Earlier, stored: Mapping[str, StateEntry], notices: list[Notice]
) -> EarlierRead | None:
    """What can be copied of a read; where something can be told against it, a note says what."""
    recorded = earlier.done(node)
    if recorded is None:
        if earlier.edited(node):
            notices.append(not_reused(node, "how it is declared has changed since"))
        return None  # else it failed or is new: nobody expects otherwise
    facts, watermark = _mapping(recorded.raw.get("read")), _mapping(recorded.raw.get("watermark"))
    task = plan.of(node.id).task
    assert isinstance(task, LandTask)
    base = _base(facts)
    why: str | None = None
    if not earlier.staging.is_file():
        why = f"the staging file of run {earlier.record.run_id} is gone"
    else:
        why = lacks(facts, read_facts(task, node.incremental, None))
    if why is None and node.incremental is not None and not earlier.record.full_refresh:
        why = _set_back(base, stored.get(node.dataset))
    if why is not None:
        notices.append(not_reused(node, why))
        return None
    return EarlierRead(
        Reuse(str(earlier.staging), node.relation, recorded.rows),
        facts,
        base,
        watermark,
        _flag(recorded.raw.get("caughtUp")),
        _mapping(recorded.raw.get("observed_schema")),
    )


def _base(facts: Mapping[str, Any] | None) -> Stored | None:
    found = _mapping((facts or {}).get("from"))
    return None if found is None else stored_watermark(StateEntry(found, ""))


def _set_back(base: Stored | None, entry: StateEntry | None) -> str | None:
    """Why the staged slice does not begin where the watermark is: rows between the two would be passed over."""
    if base is None:
        return None
    now = None if entry is None else stored_watermark(entry)
    if now is None:
        return "its watermark was cleared since"
    if now.cursor.casefold() != base.cursor.casefold() or family(now.type) != family(base.type):
        return "its watermark is one of another cursor now"
    return "its watermark was set back since" if later(base.type, base.value, now.value) else None


# --- values that are still to be stored ------------------------------------------------------------------------------


def _due(
    graph: Graph, effective: frozenset[str], earlier: _Earlier, stored: Mapping[str, StateEntry]
) -> tuple[dict[str, SourceNode], list[Notice]]:
    """Datasets whose rows were delivered and whose watermark was not stored (PZ0527), and notes on those left out."""
    record = earlier.record
    # A file without the list, and nothing that failed: then the state is all that can have gone wrong.
    all_of_them = not record.not_stored and all(node.status == _SUCCESS for node in record.nodes)
    due: dict[str, SourceNode] = {}
    notices: list[Notice] = []
    for node in graph.nodes:
        if not isinstance(node, SourceNode) or node.id in effective:
            continue
        if not (all_of_them or node.dataset in record.not_stored):
            continue
        recorded = earlier.done(node)
        watermark = None if recorded is None else _mapping(recorded.raw.get("watermark"))
        if recorded is None and node.dataset in record.not_stored:
            notices.append(_note(f"{node.dataset} has changed since; its recorded watermark is not stored", node.name))
        if watermark is None:
            continue
        if _is_above(watermark, stored.get(node.dataset)):
            due[node.id] = node
        else:
            notices.append(
                _note(
                    f"{node.dataset}: the watermark recorded by run {record.run_id} is dropped: what is stored is at "
                    "or above it",
                    node.name,
                )
            )
    return due, notices


def _is_above(watermark: Mapping[str, Any], entry: StateEntry | None) -> bool:
    now = None if entry is None else stored_watermark(entry)
    if now is None:
        return True
    kind = str(watermark.get("type"))
    value = canonical_cursor(kind, str(watermark.get("value")))
    if value is None or family(kind) != family(now.type):
        return False
    return later(now.type, value, now.value)


def _stored(graph: Graph, record: RunRecord, registry: Registry) -> Mapping[str, StateEntry]:
    if not any(node.raw.get("watermark") or node.raw.get("read") for node in record.nodes):
        return {}
    backend = open_state(graph.project.state, graph.project.root, registry)
    try:
        return dict(backend.entries(WATERMARKS))
    finally:
        backend.close()


# --- telling ---------------------------------------------------------------------------------------------------------


def _summary(record: RunRecord, reads: int, carried: list[NodeResult]) -> list[Notice]:
    sinks = sum(result.kind == "SinkWrite" for result in carried)
    values = len(carried) - sinks
    parts = [
        _counted(reads, "read is reused", "reads are reused"),
        _counted(sinks, "output is carried forward", "outputs are carried forward"),
        _counted(values, "watermark is still to be stored", "watermarks are still to be stored"),
    ]
    told = [part for part in parts if part]
    return [Notice("note", f"of run {record.run_id}: {', '.join(told)}")] if told else []


def _counted(number: int, one: str, many: str) -> str | None:
    return None if number == 0 else f"{number} {one if number == 1 else many}"


def _note(message: str, node: str) -> Notice:
    return Notice("note", message, where=Where(node=node))


def _mapping(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
