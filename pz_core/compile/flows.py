"""Flows: the parts of a graph that no edge connects, labelled by what they load."""

from __future__ import annotations

from collections.abc import Sequence

from pz_core.compile.model import Flow, Node, NodeKind


def find_flows(nodes: Sequence[Node]) -> tuple[Flow, ...]:
    """Connected components, in the order of their first node; nodes of each in execution order.

    Args:
        nodes: all nodes in execution order.
    """
    root = {node.id: node.id for node in nodes}

    def find(id: str) -> str:
        while root[id] != id:
            root[id] = root[root[id]]
            id = root[id]
        return id

    for node in nodes:
        for parent in node.depends_on:
            root[find(node.id)] = find(parent)
    members: dict[str, list[Node]] = {}
    for node in nodes:
        members.setdefault(find(node.id), []).append(node)
    return tuple(Flow(_label(group), tuple(n.id for n in group)) for group in members.values())


def _label(group: Sequence[Node]) -> str:
    sinks = [n.name for n in group if n.kind is NodeKind.SINK]
    if sinks:
        return " + ".join(sinks)
    used = {parent for n in group if n.kind is not NodeKind.CHECK for parent in n.depends_on}
    return " + ".join(n.name for n in group if n.kind is not NodeKind.CHECK and n.id not in used)
