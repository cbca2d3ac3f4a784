"""After the nodes: watermarks move, dataset by dataset, as far as every output below has the rows.

Sources: engine.md 1.11, 1.12 and 5.2, DECISIONS 4 and 10 (PZ0527).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pz_core.compile.model import Graph, SinkNode, SourceNode
from pz_core.errors import Notice, PzError, Where
from pz_core.run.faults import unexpected
from pz_core.run.results import NodeResult
from pz_core.run.state import Watermarks


@dataclass(frozen=True, slots=True)
class Advanced:
    """What became of the watermarks.

    Args:
        settled: datasets whose candidate is now, or already was, what is stored.
        notices: datasets that stay where they are, and why.
        error: PZ0527, if rows were delivered and a watermark could not be stored.
        not_stored: the datasets of which PZ0527 speaks.
    """

    settled: frozenset[str] = frozenset()
    notices: tuple[Notice, ...] = ()
    error: PzError | None = None
    not_stored: tuple[str, ...] = ()


def advance(graph: Graph, results: Sequence[NodeResult], watermarks: Watermarks, *, full_refresh: bool) -> Advanced:
    """Store the candidates of a run. One dataset's fault leaves the others alone; nothing is raised.

    Args:
        graph: all of it: an output that was left out of the run keeps a watermark where it is.
        results: of the run.
        watermarks: as they were read before it.
        full_refresh: whether a watermark may go back.
    """
    by_id = {result.id: result for result in results}
    settled: set[str] = set()
    notices: list[Notice] = []
    faults: list[tuple[str, PzError]] = []
    for node in graph.nodes:
        result = by_id.get(node.id)
        if not isinstance(node, SourceNode) or result is None or result.status != "success" or not result.watermark:
            continue
        reason = _held_back(graph, node, result, by_id)
        if reason is not None:
            notices.append(
                Notice("note", f"{node.dataset}: the watermark stays: {reason}", where=Where(node=node.name))
            )
            continue
        try:
            watermarks.advance(node.dataset, result.watermark, may_go_back=full_refresh)
            settled.add(node.dataset)
        except Exception as error:  # noqa: BLE001 - a backend can raise anything; the other datasets still advance
            faults.append((node.dataset, unexpected(error)))
    failed = tuple(dataset for dataset, _ in faults)
    return Advanced(frozenset(settled), tuple(notices), _not_stored(faults), failed)


def _held_back(graph: Graph, source: SourceNode, result: NodeResult, by_id: dict[str, NodeResult]) -> str | None:
    """Why a dataset must not advance; ``None`` if every output below it has the rows."""
    for id in sorted(graph.descendants(source.id), key=lambda i: graph.node(i).name):
        sink = graph.node(id)
        if not isinstance(sink, SinkNode):
            continue
        done = by_id.get(id)
        if done is None:
            return f"its output {sink.name} was not part of this run"
        if done.status != "success":
            return f"its output {sink.name} {'failed' if done.status == 'failed' else 'was skipped'}"
        if done.provenance == "carried_forward" and result.provenance not in ("reused", "carried_forward"):
            return f"its output {sink.name} has the rows of an earlier run, and the read was made anew"
    return None


def _not_stored(faults: Sequence[tuple[str, PzError]]) -> PzError | None:
    if not faults:
        return None
    listed = "; ".join(f"{dataset} ({error.code} {error.message})" for dataset, error in faults)
    return PzError(
        "PZ0527",
        f"rows were delivered, but how far was not stored: {listed}",
        hint="pz retry stores it and reads nothing again; without that the next run delivers these rows once more",
    )
