"""Choosing nodes: names, ``--select`` expressions, ``--all``.

A blank separates groups that are united, a comma narrows a group, an atom is ``[+](tag:|source:)?pattern[+]``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from pz_core.compile.model import Graph, NodeKind, PipelineNode, SourceNode
from pz_core.errors import Problems

_ATOM = re.compile(r"(?P<up>\+)?(?:(?P<by>tag|source):)?(?P<pattern>[\w.*/-]+)(?P<down>\+)?")


def select(
    graph: Graph,
    *,
    names: Sequence[str] = (),
    expression: str | None = None,
    all_: bool = False,
    gate: bool = False,
) -> frozenset[str]:
    """Ids of the chosen nodes.

    Args:
        graph: the compiled project.
        names: exact names of nodes (or labels of flows); each takes all its ancestors and descendants along.
        expression: of ``--select``; exactly what it says. A blank one counts as absent.
        all_: every node.
        gate: whether a project of several flows must be chosen from (``pz run``).

    Raises:
        PzErrors: PZ0216 if more than one way is used, PZ0210 for what matches nothing, PZ0215 by the gate.
    """
    problems = Problems()
    wanted = expression if expression and expression.strip() else None
    ways = [
        *(["names of nodes"] if names else []),
        *(["--select"] if wanted is not None else []),
        *(["--all"] if all_ else []),
    ]
    if len(ways) > 1:
        problems.error("PZ0216", f"{' and '.join(ways)} exclude one another", hint="use one of them")
    problems.raise_if_any()
    if names:
        return _by_names(graph, names)
    if wanted is not None:
        return _by_expression(graph, wanted)
    if gate and not all_ and len(graph.flows) > 1:
        problems.error(
            "PZ0215",
            f"the project has {len(graph.flows)} flows, and none was chosen: {_flows(graph)}",
            hint="name a node of the flow to run, or run all with --all",
        )
    problems.raise_if_any()
    return frozenset(n.id for n in graph.nodes)


def with_ancestors(graph: Graph, ids: Iterable[str]) -> frozenset[str]:
    """The nodes and everything that they depend on."""
    return _closure(ids, lambda id: graph.node(id).depends_on)


def checks_with_ancestors(graph: Graph, ids: Collection[str]) -> frozenset[str]:
    """The checks among the nodes and what those depend on: never a sink."""
    return with_ancestors(graph, (id for id in ids if graph.node(id).kind is NodeKind.CHECK))


def _closure(ids: Iterable[str], step: object) -> frozenset[str]:
    assert callable(step)
    todo = list(ids)
    seen = set(todo)
    while todo:
        for other in step(todo.pop()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return frozenset(seen)


def _by_names(graph: Graph, names: Sequence[str]) -> frozenset[str]:
    problems = Problems()
    chosen: set[str] = set()
    for name in dict.fromkeys(names):
        found = [n.id for n in graph.nodes if n.name == name]
        found = found or [id for flow in graph.flows if flow.label == name for id in flow.nodes]
        if not found:
            problems.error(
                "PZ0210",
                f"'{name}' is no node of this project; its flows: {_flows(graph)}",
                hint="pz ls lists the names of all nodes; use --select for patterns",
            )
        chosen |= _above(graph, found) | _below(graph, found)
    problems.raise_if_any()
    return frozenset(chosen)


# Ancestors and descendants are two walks, each with a memory of its own: one shared between them, or between several
# names, would miss an ancestor that an earlier walk met as a descendant.
def _above(graph: Graph, ids: Iterable[str]) -> frozenset[str]:
    return with_ancestors(graph, ids)


def _below(graph: Graph, ids: Iterable[str]) -> frozenset[str]:
    return _closure(ids, graph.children)


def _flows(graph: Graph) -> str:
    return ", ".join(f.label for f in graph.flows) or "none"


def _by_expression(graph: Graph, expression: str) -> frozenset[str]:
    problems = Problems()
    chosen: frozenset[str] = frozenset()
    told: set[str] = set()
    for group in expression.split():
        parts: list[frozenset[str]] = []
        for atom in group.split(","):
            found = _by_atom(graph, atom)
            if found is not None:
                parts.append(found)
            elif atom not in told:
                told.add(atom)
                problems.error(
                    "PZ0210",
                    f"--select: '{atom}' {'matches no node' if _ATOM.fullmatch(atom) else 'is no selector'}",
                    hint="write [+]name[+], tag:name or source:connection.entity; * stands for any characters, a blank "
                    "unites and a comma narrows; pz ls lists all nodes",
                )
        if parts:
            chosen |= frozenset.intersection(*parts)
    problems.raise_if_any()
    return chosen


def _by_atom(graph: Graph, atom: str) -> frozenset[str] | None:
    match = _ATOM.fullmatch(atom)
    if match is None:
        return None
    by, pattern = match["by"], match["pattern"]
    if by == "tag":
        found = [n.id for n in graph.nodes if isinstance(n, PipelineNode) and pattern in n.tags]
    else:
        fits = re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL).fullmatch
        if by == "source":
            found = [n.id for n in graph.nodes if isinstance(n, SourceNode) and fits(n.dataset)]
        else:
            found = [n.id for n in graph.nodes if fits(n.name)]
    if not found:
        return None
    made = frozenset(found)
    if match["up"]:
        made |= _above(graph, found)
    if match["down"]:
        made |= _below(graph, found)
    return made
