"""Which run is retried, which of its nodes run again, and what is taken over from it.

Sources: engine.md 1.12, DECISIONS 10. A node that was edited since is found by its kind and name; what is taken over
asks for unchanged ids, so that rows and results belong to what the project says now.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from pz_core.compile.model import Graph, PipelineNode, SinkNode, SourceNode
from pz_core.contract.engine import Earlier, LandTask, Reuse
from pz_core.contract.state import RunStore
from pz_core.errors import Notice, PzError
from pz_core.plan.model import Plan
from pz_core.plugins import Registry
from pz_core.run.earlier import (
    SUCCESS,
    EarlierRun,
    StoredState,
    base_of,
    mapping,
    recorded_nodes,
    token_moved,
    told,
    watermark_moved,
)
from pz_core.run.fingerprints import vars_hash
from pz_core.run.history import list_runs
from pz_core.run.results import RUNNING, NodeResult, RunRecord
from pz_core.run.reuse import EarlierRead, TakenOver, lacks, not_reused, read_facts
from pz_core.run.unstored import unstored

_RETRIABLE = "completed_with_failures"


class Chosen(Struct, frozen=True):
    """Nodes of the project that failed or were skipped in the run before.

    Args:
        ids: of the project as it is now.
        notices: nodes that were edited since, and nodes that are gone.
    """

    ids: frozenset[str]
    notices: tuple[Notice, ...] = ()


def run_to_retry(root: Path, store: RunStore | None = None) -> RunRecord:
    """The newest run of a project, if it is one that ended in order.

    Args:
        root: folder of the project.
        store: where runs of all machines are, beside the directories of this one.

    Raises:
        PzError: PZ0502 without a run that can be read, PZ0503 if the newest has not ended, PZ0504 if it ended fatally.
    """
    newest = next(iter(list_runs(root, store, limit=1)), None)
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
    if newest.status not in (SUCCESS, _RETRIABLE):
        raise PzError(
            "PZ0504",
            f"run {newest.run_id} ended as {newest.status}: its results are nothing to go on from",
            hint="start over with pz run",
        )
    return newest.record


def succeeded(record: RunRecord) -> bool:
    """Whether a run left nothing to retry."""
    return record.status == SUCCESS


def choose(graph: Graph, record: RunRecord) -> Chosen:
    """Find the failed and skipped nodes of a run in the project as it is now.

    Args:
        graph: of the project.
        record: of the run.
    """
    now = {(node.kind.value, node.name): node for node in graph.nodes}
    ids: set[str] = set()
    notices: list[Notice] = []
    for key, recorded in recorded_nodes(record).items():
        if recorded.status == SUCCESS:
            continue
        node = now.get(key)
        if node is None:
            notices.append(told(f"{recorded.name}, which {recorded.status}, is no longer in the project", key[1]))
            continue
        if node.id != recorded.id:
            notices.append(told(f"{node.name} has changed since run {record.run_id}; it runs as it is now", key[1]))
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
    earlier = EarlierRun(graph, record, registry)
    stored = StoredState.read(graph, record, registry)
    notices: list[Notice] = _changed(graph, effective, earlier)
    reads: dict[str, EarlierRead] = {}
    begun: dict[str, Earlier] = {}
    deliveries: dict[str, tuple[Earlier, ...]] = {}
    carried: list[NodeResult] = []
    if not full_refresh:
        for node in graph.nodes:
            if node.id not in effective:
                continue
            if isinstance(node, SourceNode):
                found = _read(plan, node, earlier, stored, notices)
                if found is not None:
                    reads[node.id] = found
                elif _is_begun(plan, node, earlier, registry, notices):
                    begun[node.id] = Earlier(str(earlier.staging))
            elif isinstance(node, SinkNode) and _broke_off(node, earlier, registry, notices):
                deliveries[node.id] = tuple(Earlier(str(path)) for path in earlier.stagings(node.connection))
        carried += _sinks(graph, effective, earlier, lambda sources: bool(sources) and sources <= reads.keys(), notices)
    due, dropped = unstored(graph, effective, earlier, stored)
    notices += dropped
    have = {result.id for result in carried}
    for source in due.values():
        carried.append(earlier.carried(source, watermark=True))
    if due:
        # These have the rows behind the value; what else they read does not matter: nothing is read anew for them.
        delivered = _sinks(graph, effective, earlier, lambda sources: not due.keys().isdisjoint(sources), notices)
        carried += [result for result in delivered if result.id not in have]
    order = {node.id: index for index, node in enumerate(graph.nodes)}
    carried.sort(key=lambda result: order[result.id])
    notices += _summary(record, len(reads), carried)
    return TakenOver(record.run_id, reads, tuple(carried), begun, deliveries), tuple(dict.fromkeys(notices))


def _sources_above(graph: Graph, id: str) -> frozenset[str]:
    return frozenset(i for i in graph.ancestors(id) if isinstance(graph.node(i), SourceNode))


def _sinks(
    graph: Graph,
    effective: frozenset[str],
    earlier: EarlierRun,
    fits: Callable[[frozenset[str]], bool],
    notices: list[Notice],
) -> list[NodeResult]:
    """Outputs outside the run that were written, with nothing above them changed; ``fits`` judges their sources."""
    found: list[NodeResult] = []
    for node in graph.nodes:
        if not isinstance(node, SinkNode) or node.id in effective or not earlier.same_above(node):
            continue
        if not fits(_sources_above(graph, node.id)):
            continue
        moved = earlier.moved(node.connection)
        if moved is None:
            found.append(earlier.carried(node))
        else:
            notices.append(told(f"{node.name}: what was written is not carried forward: {moved}", node.name))
    return found


def _changed(graph: Graph, effective: frozenset[str], earlier: EarlierRun) -> list[Notice]:
    """What this retry makes otherwise than the run before did, where nothing else tells it."""
    record = earlier.record
    found = [
        told(f"{node.name} has changed since run {record.run_id}; it is computed as it is now", node.name)
        for node in graph.nodes
        if isinstance(node, PipelineNode) and node.id in effective and earlier.edited(node)
    ]
    if record.vars_hash != vars_hash(graph.project) and (record.given_vars or graph.project.outside_vars):
        names = ", ".join(sorted({*record.given_vars, *graph.project.outside_vars}))
        found.append(
            Notice(
                "note",
                f"run {record.run_id} was given other values of variables from outside ({names}) than this retry; what "
                "is made from them is made from the values of now",
                hint="to have the values of then, give the command of then again: pz run --vars …",
            )
        )
    return found


def _broke_off(node: SinkNode, earlier: EarlierRun, registry: Registry, notices: list[Notice]) -> bool:
    """Whether a delivery may go on where it broke off; the engine still compares the rows."""
    recorded = earlier.unfinished(node)
    if (
        recorded is None
        or not _able(registry, node.connector, "checkpointable_writes")
        or not earlier.staging.is_file()
    ):
        return False
    moved = earlier.moved(node.connection)
    if moved is not None and recorded.raw.get("delivery"):
        notices.append(told(f"{node.name}: the delivery begins anew: {moved}", node.name))
    return moved is None


def _able(registry: Registry, connector: str, ability: str) -> bool:
    try:
        return getattr(registry.load("connector", connector).capabilities, ability) is True
    except PzError:
        return False  # the node will say so


# --- reads -----------------------------------------------------------------------------------------------------------


def _read(
    plan: Plan, node: SourceNode, earlier: EarlierRun, stored: StoredState, notices: list[Notice]
) -> EarlierRead | None:
    """What can be copied of a read; where something can be told against it, a note says what."""
    recorded = earlier.done(node)
    if recorded is None:
        if earlier.edited(node):
            notices.append(not_reused(node, "how it is declared has changed since"))
        return None  # else it failed or is new: nobody expects otherwise
    facts, watermark = mapping(recorded.raw.get("read")), mapping(recorded.raw.get("watermark"))
    task = plan.of(node.id).task
    assert isinstance(task, LandTask)
    base = base_of(facts)
    feed = earlier.tokens.get(node.id) if task.feed else None
    why: str | None = None
    if (mapping(recorded.raw.get("accounting")) or {}).get("passed"):
        why = "its rows passed straight into their sink and were never staged"
    elif not earlier.staging.is_file():
        why = f"the staging file of run {earlier.record.run_id} is gone"
    else:
        why = earlier.moved(node.connection) or lacks(facts, read_facts(task, node.incremental, None))
    if why is None and node.incremental is not None and not earlier.record.full_refresh:
        why = watermark_moved(base, watermark, stored.watermarks.get(node.dataset))
    if why is None and task.feed:
        why = None if earlier.record.full_refresh else token_moved(facts, stored.tokens.get(node.dataset))
        if why is None and feed is None:
            why = "the token that it ended at is gone"
    if why is not None:
        notices.append(not_reused(node, why))
        return None
    return EarlierRead(
        Reuse(str(earlier.staging), node.relation, recorded.rows),
        facts,
        base,
        watermark,
        _flag(recorded.raw.get("caughtUp")),
        mapping(recorded.raw.get("observed_schema")),
        feed,
    )


def _is_begun(plan: Plan, node: SourceNode, earlier: EarlierRun, registry: Registry, notices: list[Notice]) -> bool:
    """Whether partitions of a read that failed may be taken; the engine still compares what was asked and counts."""
    recorded, task = earlier.unfinished(node), plan.of(node.id).task
    if recorded is None or not isinstance(task, LandTask) or task.feed or task.tier != "universal":
        return False
    if not _able(registry, node.connector, "stable_partitions") or not earlier.staging.is_file():
        return False
    moved = earlier.moved(node.connection)
    counts = mapping(recorded.raw.get("partitions")) or {}
    if moved is not None and counts.get("completed"):
        notices.append(not_reused(node, moved))
    return moved is None


# --- telling ---------------------------------------------------------------------------------------------------------


def _summary(record: RunRecord, reads: int, carried: list[NodeResult]) -> list[Notice]:
    sinks = sum(result.kind == "SinkWrite" for result in carried)
    watermarks = sum(result.watermark is not None for result in carried)
    tokens = sum(result.feed is not None for result in carried)
    parts = [
        _counted(reads, "read is reused", "reads are reused"),
        _counted(sinks, "output is carried forward", "outputs are carried forward"),
        _counted(watermarks, "watermark is still to be stored", "watermarks are still to be stored"),
        _counted(tokens, "token is still to be stored", "tokens are still to be stored"),
    ]
    told = [part for part in parts if part]
    return [Notice("note", f"of run {record.run_id}: {', '.join(told)}")] if told else []


def _counted(number: int, one: str, many: str) -> str | None:
    return None if number == 0 else f"{number} {one if number == 1 else many}"


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
