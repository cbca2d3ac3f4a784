"""After the nodes: watermarks and tokens move, dataset by dataset, as far as every output below has the rows.

Sources: engine.md 1.11, 1.12 and 5.2, DECISIONS 4 and 10 (PZ0527).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from pz_core.compile.model import Graph, SinkNode, SourceNode
from pz_core.errors import Notice, PzError, Where
from pz_core.run.faults import unexpected
from pz_core.run.feeds import Tokens
from pz_core.run.results import NodeResult
from pz_core.run.state import Watermarks


class Advanced(Struct, frozen=True):
    """What became of watermarks or tokens.

    Args:
        settled: datasets whose candidate is now, or already was, what is stored.
        notices: datasets that stay where they are, and why.
        faults: datasets whose rows were delivered and whose value could not be stored, and why.
    """

    settled: frozenset[str] = frozenset()
    notices: tuple[Notice, ...] = ()
    faults: tuple[tuple[str, PzError], ...] = ()


def advance(graph: Graph, results: Sequence[NodeResult], watermarks: Watermarks, *, full_refresh: bool) -> Advanced:
    """Store the candidates of a run. One dataset's fault leaves the others alone; nothing is raised.

    Args:
        graph: all of it: an output that was left out of the run keeps a watermark where it is.
        results: of the run.
        watermarks: as they were read before it.
        full_refresh: whether a watermark may go back.
    """

    def store(dataset: str, result: NodeResult) -> None:
        assert result.watermark is not None  # only such are given
        watermarks.advance(dataset, result.watermark, may_go_back=full_refresh)

    return _advance(graph, results, "watermark", lambda result: bool(result.watermark), store)


def advance_tokens(graph: Graph, results: Sequence[NodeResult], tokens: Tokens) -> Advanced:
    """Store where feeds ended, under the same conditions as watermarks."""

    def store(dataset: str, result: NodeResult) -> None:
        assert result.feed is not None  # only such are given
        tokens.advance(dataset, result.feed)

    return _advance(graph, results, "token", lambda result: result.feed is not None, store)


def _advance(
    graph: Graph,
    results: Sequence[NodeResult],
    what: str,
    has: Callable[[NodeResult], bool],
    store: Callable[[str, NodeResult], None],
) -> Advanced:
    by_id = {result.id: result for result in results}
    settled: set[str] = set()
    notices: list[Notice] = []
    faults: list[tuple[str, PzError]] = []
    for node in graph.nodes:
        result = by_id.get(node.id)
        if not isinstance(node, SourceNode) or result is None or result.status != "success" or not has(result):
            continue
        reason = _held_back(graph, node, result, by_id)
        if reason is not None:
            notices.append(Notice("note", f"{node.dataset}: the {what} stays: {reason}", where=Where(node=node.name)))
            continue
        try:
            store(node.dataset, result)
            settled.add(node.dataset)
        except Exception as error:  # noqa: BLE001 - a backend can raise anything; the other datasets still advance
            faults.append((node.dataset, unexpected(error)))
    return Advanced(frozenset(settled), tuple(notices), tuple(faults))


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


def not_stored(faults: Sequence[tuple[str, PzError]]) -> PzError | None:
    """PZ0527 for all datasets whose rows were delivered and whose value was not stored, ``None`` without any."""
    if not faults:
        return None
    listed = "; ".join(f"{dataset} ({error.code} {error.message})" for dataset, error in faults)
    return PzError(
        "PZ0527",
        f"rows were delivered, but how far was not stored: {listed}",
        hint="pz retry stores it and reads nothing again; without that the next run delivers these rows once more",
    )
