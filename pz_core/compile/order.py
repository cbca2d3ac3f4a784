"""Execution order: parents first, then kind, then name; and the names around a loop where there is one."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from pz_core.compile.model import Node


def execution_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Kahn's algorithm; among ready nodes the lowest (kind, name, id) goes first.

    The graph must be free of loops: :func:`loops` is asked before.
    """
    by_id = {node.id: node for node in nodes}
    waiting = {node.id: len(node.depends_on) for node in nodes}
    children: dict[str, list[str]] = {}
    for node in nodes:
        for parent in node.depends_on:
            children.setdefault(parent, []).append(node.id)
    ready = [(n.kind.rank, n.name, n.id) for n in nodes if not n.depends_on]
    heapq.heapify(ready)
    made: list[Node] = []
    while ready:
        id = heapq.heappop(ready)[2]
        made.append(by_id[id])
        for child in children.get(id, ()):
            waiting[child] -= 1
            if not waiting[child]:
                node = by_id[child]
                heapq.heappush(ready, (node.kind.rank, node.name, child))
    return tuple(made)


def loops(edges: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """One loop for each knot of names that depend on one another, sorted; the first name stands again at the end.

    Args:
        edges: name -> names that it depends on.
    """
    found: list[tuple[str, ...]] = []
    for knot in _knots(edges):
        start = min(knot)
        if len(knot) > 1 or start in edges.get(start, ()):
            found.append(_shortest(edges, start, knot))
    return tuple(sorted(found))


def _shortest(edges: Mapping[str, Sequence[str]], start: str, knot: frozenset[str]) -> tuple[str, ...]:
    came: dict[str, str] = {}
    queue = [start]
    for name in queue:
        for other in sorted(edges.get(name, ())):
            if other == start:
                path = [name]
                while path[-1] != start:
                    path.append(came[path[-1]])
                return (*reversed(path), start)
            if other in knot and other not in came:
                came[other] = name
                queue.append(other)
    raise AssertionError("a name of a knot is on a loop")


def _knots(edges: Mapping[str, Sequence[str]]) -> list[frozenset[str]]:
    """Tarjan's strongly connected components, without recursion: a project may be one long chain."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    made: list[frozenset[str]] = []
    for first in sorted(edges):
        if first in index:
            continue
        work: list[tuple[str, int]] = [(first, 0)]
        while work:
            name, at = work.pop()
            if at == 0:
                index[name] = low[name] = len(index)
                stack.append(name)
                on_stack.add(name)
            targets = [t for t in edges.get(name, ()) if t in edges]
            deeper = False
            for i in range(at, len(targets)):
                target = targets[i]
                if target not in index:
                    work.extend(((name, i + 1), (target, 0)))
                    deeper = True
                    break
                if target in on_stack:
                    low[name] = min(low[name], index[target])
            if deeper:
                continue
            if low[name] == index[name]:
                knot: set[str] = set()
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    knot.add(member)
                    if member == name:
                        break
                made.append(frozenset(knot))
            if work:
                above = work[-1][0]
                low[above] = min(low[above], low[name])
    return made
