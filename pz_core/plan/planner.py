"""Decides for every node how it will be done, offline, and collects everything that cannot be."""

from __future__ import annotations

from pz_core.compile.model import CheckNode, Graph, PipelineNode, SinkNode, SourceNode
from pz_core.contract.engine import CheckTask, MaterialiseTask, NodeRef
from pz_core.errors import Problems, PzError
from pz_core.plan.budget import memory_budget
from pz_core.plan.connectors import Connectors
from pz_core.plan.model import MemoryBudget, NodePlan, Plan
from pz_core.plan.passing import pass_through
from pz_core.plan.sinks import lacking, plan_sink, sharing
from pz_core.plan.sources import Context, plan_source
from pz_core.plugins import Registry


def make_plan(graph: Graph, registry: Registry, *, executed: frozenset[str] | None = None) -> Plan:
    """Plan the whole project: no file, place or database is touched.

    Args:
        graph: the compiled project.
        registry: where connectors and strategies are found.
        executed: ids of the nodes that will run, ``None`` for all. A refusal that matters only when its node runs
            (PZ0305, PZ0353, PZ0365) is kept with the node instead of raised, where the node is not among them.

    Raises:
        PzErrors: every refusal of the plan, together.
    """
    problems = Problems()
    everything = frozenset(n.id for n in graph.nodes)
    context = Context(
        graph, Connectors(graph.project, registry), problems, everything if executed is None else executed
    )
    made: list[NodePlan] = []
    feeds: dict[str, str] = {}
    for node in graph.nodes:
        if isinstance(node, SourceNode):
            planned = plan_source(context, node)
            if planned.read_shape == "feed":
                feeds[node.id] = node.dataset
            made.append(planned)
        elif isinstance(node, SinkNode):
            above = frozenset(feeds[i] for i in graph.ancestors(node.id) if i in feeds) if feeds else frozenset()
            made.append(plan_sink(context, node, registry, above))
        else:
            made.append(_inside(node))
    for error in sharing(context, made):
        problems.add(error)
    for error in lacking(context, [n for n in graph.nodes if isinstance(n, SinkNode)], registry):
        problems.add(error)
    _refuse_pace(context)
    budget = _budget(graph, problems)
    problems.errors = list({(e.code, e.message, e.where): e for e in problems.errors}.values())
    problems.raise_if_any()
    made = pass_through(context, made, registry)
    caps = {c.name: c.max_concurrency for c in graph.project.connections.values() if c.max_concurrency is not None}
    return Plan(graph, tuple(made), budget, caps, tuple(problems.notices))


def _inside(node: PipelineNode | CheckNode) -> NodePlan:
    """A node that is SQL inside staging."""
    ref = NodeRef(node.id, node.name)
    if isinstance(node, PipelineNode):
        as_view = node.materialization == "view"
        task = MaterialiseTask(ref, node.relation, node.sql, as_view)
        reason = "view in staging" if as_view else "table in staging"
        return NodePlan(node.id, node.kind.value, node.name, "duck_sql", reason, task)
    check = CheckTask(ref, node.pipeline, node.entry.definition, node.samples)
    reason = f"check '{node.entry.definition.kind}' of staging.{node.pipeline}"
    return NodePlan(node.id, node.kind.value, node.name, "duck_sql", reason, check)


def _refuse_pace(context: Context) -> None:
    """``rate_limit`` on a connector that cannot pace: once a connection that the graph uses."""
    graph = context.graph
    used = sorted({n.connection for n in graph.nodes if isinstance(n, (SourceNode, SinkNode))})
    for name in used:
        connection = graph.project.connections[name]
        if connection.rate_limit is None:
            continue
        try:
            able = context.connectors.target(name).capabilities
        except PzError:
            continue  # told already, by the node
        if not able.gated_operations:
            context.problems.error(
                "PZ0317",
                f"connection '{name}': connector '{connection.connector}' cannot pace its operations, "
                "which rate_limit needs",
                where=connection.where,
                hint="drop rate_limit; max_concurrency limits how many nodes use the connection at once",
            )


def _budget(graph: Graph, problems: Problems) -> MemoryBudget:
    try:
        return memory_budget(graph.project.engine)
    except PzError as error:
        problems.add(error)
        return MemoryBudget(None, 0, 0, 0)
