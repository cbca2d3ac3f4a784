"""Tier 3: what the connectors and strategies themselves say about the options that a project gives them. Offline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pz_core.compile.model import Graph, SinkNode, SourceNode
from pz_core.contract.options import OptionSet
from pz_core.errors import Notice, Problems, PzError, PzErrors, Where
from pz_core.plan.connectors import Connectors
from pz_core.plan.specs import read_spec, split_options, write_spec
from pz_core.plugins import Registry
from pz_core.values import Value

#: Refused by the planner with its own code (PZ0314) where a connector does not know it.
_PLANNERS_OWN = ("partition_by",)


def check_options(
    graph: Graph, registry: Registry, *, only: frozenset[str] | None = None, unused_connections: bool = True
) -> tuple[Notice, ...]:
    """Check the options of connections, reads and writes against what connectors and strategies declare.

    Args:
        graph: the compiled project.
        registry: where connectors and strategies are found.
        only: ids of the nodes to look at, with the connections that they use; ``None`` for all of the project.
        unused_connections: whether connections that no node uses are looked at too (with ``only`` they never are).

    Returns:
        What connectors wished to tell.

    Raises:
        PzErrors: all faults: PZ0301, PZ0305, PZ0345, PZ0701 to PZ0705, and the codes of connectors' own checks.
    """
    problems = Problems()
    checker = _Checker(graph, registry, problems)
    nodes = [n for n in graph.nodes if only is None or n.id in only]
    used = {n.connection for n in nodes if isinstance(n, (SourceNode, SinkNode))}
    for name in graph.project.connections:
        if name in used or (only is None and unused_connections):
            checker.connection(name)
    for node in nodes:
        if isinstance(node, SourceNode):
            checker.read(node)
        elif isinstance(node, SinkNode):
            checker.write(node)
    problems.raise_if_any()
    return tuple(problems.notices)


class _Checker:
    def __init__(self, graph: Graph, registry: Registry, problems: Problems) -> None:
        self._graph = graph
        self._registry = registry
        self._problems = problems
        self._connectors = Connectors(graph.project, registry)
        self._targets: dict[str, Any] = {}
        self._sound: set[str] = set()
        self._strategies: dict[str, Any] = {}

    def connection(self, name: str) -> None:
        described = self._graph.project.connections[name]
        try:
            target = self._connectors.target(name)
        except PzError as error:
            self._problems.add(error)
            return
        self._targets[name] = target
        subject = f"connection '{name}' ({described.connector})"
        if self._faults(subject, target.connection_options, described.config, described.where, shown=False):
            return
        if self._ask(subject, lambda: self._connectors.instance(name).validate(), described.where):
            self._sound.add(name)

    def read(self, node: SourceNode) -> None:
        target = self._targets.get(node.connection)
        if target is None:
            return
        subject = f"{node.dataset} ({node.connector}, read)"
        faulty = self._faults(subject, target.read_options, node.options, node.where)
        if not faulty and node.connection in self._sound:
            instance = self._connectors.instance(node.connection)
            spec = read_spec(node, target, self._graph.project.name)
            self._ask(subject, lambda: instance.validate_read(spec), node.where)

    def write(self, node: SinkNode) -> None:
        strategy = self._strategy(node)
        target = self._targets.get(node.connection)
        if target is None or strategy is None:
            return
        subject = f"{node.name} ({node.connector}, write)"
        both = sorted(set(target.write_options.names()) & set(strategy.options.names()))
        if both:
            self._problems.error(
                "PZ0705",
                f"{subject}: connector '{node.connector}' and strategy '{node.strategy}' both declare the option "
                + ", ".join(f"'{name}'" for name in both),
                where=node.where,
                hint="report this to the authors of both plugins: one of them must name its option differently",
            )
            return
        options, own = split_options(node, target, strategy)
        accepted = (*target.write_options.names(), *strategy.options.names())
        faulty = self._faults(subject, target.write_options, options, node.where, accepted=accepted)
        faulty |= self._faults(f"{node.name} (strategy {node.strategy})", strategy.options, own, node.where)
        if not faulty and node.connection in self._sound:
            instance = self._connectors.instance(node.connection)
            spec = write_spec(node, options, strategy.traits.load_modes[0], self._graph.constants)
            self._ask(subject, lambda: instance.validate_write(spec), node.where)

    def _strategy(self, node: SinkNode) -> Any:
        if node.strategy not in self._strategies:
            try:
                self._strategies[node.strategy] = self._registry.load("strategy", node.strategy)
            except PzError as error:
                self._problems.add(error.at(node.where))
                self._strategies[node.strategy] = None
        return self._strategies[node.strategy]

    def _faults(
        self,
        subject: str,
        declared: OptionSet,
        values: Mapping[str, Value],
        where: Where,
        *,
        accepted: Sequence[str] | None = None,
        shown: bool = True,
    ) -> bool:
        names = tuple(accepted) if accepted is not None else declared.names()
        unknown = [n for n in values if n not in names and n not in _PLANNERS_OWN]
        for name in unknown:
            self._problems.error(
                "PZ0301", f"{subject}: unknown option '{name}'", where=where, hint=_accepted(names, near=name)
            )
        others = declared.faults(values, known=values, shown=shown)
        for fault in others:
            self._problems.error("PZ0301", f"{subject}: {fault}", where=where, hint=_accepted(names))
        return bool(unknown or others)

    def _ask(self, subject: str, question: Callable[[], Iterable[PzError]], where: Where) -> bool:
        """Whether a connector's own check finds no fault; what it raises is a fault too."""
        try:
            found = list(question())
        except PzErrors as errors:
            found = list(errors)
        except PzError as error:
            found = [error]
        except Exception as error:  # noqa: BLE001 - a plugin can raise anything; the user gets a coded error that names it
            found = [
                PzError(
                    "PZ0501",
                    f"{subject}: the connector's check of its options raised {type(error).__name__}",
                    hint="this is a fault of the connector: report it to its authors, with PZ_DEBUG=1 for the details",
                    cause=error,
                )
            ]
        for fault in found:
            self._problems.add(fault if str(fault.where) else fault.at(where))
        return not found


def _accepted(names: Sequence[str], near: str | None = None) -> str:
    listed = "accepted options: " + (", ".join(names) or "none")
    close = get_close_matches(near, names, n=1) if near else []
    return f"did you mean '{close[0]}'? {listed}" if close else listed
