"""Which rows pass straight from their source into their sink, without being staged on the way.

They may where nothing else needs them: one view reads the dataset, one sink is loaded from the view, nothing is
checked, and no watermark or ledger depends on what landed. The view must make exactly one row of each row, since then
the rows that the target was handed are the rows that were read, and every node can still account for its own.

Source: DESIGN "A row's journey" (how a relation is held is decided here, node by node).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pz_core.compile.model import CheckNode, Graph, Node, PipelineNode, SinkNode, SourceNode
from pz_core.compile.sqlparse import NotParsed, Tree, one_row_each, parse
from pz_core.contract.engine import DrainTask, LandTask
from pz_core.contract.strategy import Strategy
from pz_core.errors import PzError
from pz_core.plan.model import NodePlan, PassInto
from pz_core.plan.sources import Context
from pz_core.plugins import Registry
from pz_core.values import canonical_json

#: What a SELECT may consist of to be nothing but its select list over one table.
_SELECT = frozenset({"type", "select_list", "from_table", "aggregate_handling"})
#: Functions that find a table by a text, so that its name need not stand in the SQL.
_ASK = ("query", "query_table")
#: A star that leaves nothing out.
_WHOLE_STAR = frozenset({"class", "type", "query_location"})
_WORD = re.compile(r"\w+")
_TABLE = frozenset({"type", "alias", "query_location", "schema_name", "table_name", "column_name_alias"})


def pass_through(context: Context, plans: Sequence[NodePlan], registry: Registry) -> list[NodePlan]:
    """The plans, with what may pass straight into a sink marked at its source.

    Args:
        context: of the plan.
        plans: of all nodes, in order.
        registry: where strategies are found.
    """
    graph, by_id = context.graph, {plan.id: plan for plan in plans}
    if graph.project.engine.breaker is not None or graph.project.engine.node_timeout_ms is not None:
        return list(plans)  # both are kept for each node by itself
    words = _Words(graph)
    made: list[NodePlan] = []
    for plan in plans:
        found = _way(context, plan, by_id, registry, words)
        if found is not None:
            sink = graph.node(found.sink)
            told = f"{plan.reason}; rows pass straight into {sink.name}, and are staged only if that fails"
            plan = replace(plan, passes_into=found, reason=told)
        made.append(plan)
    return made


def _way(
    context: Context, plan: NodePlan, plans: Mapping[str, NodePlan], registry: Registry, words: _Words
) -> PassInto | None:
    graph, source = context.graph, context.graph.node(plan.id)
    if not isinstance(source, SourceNode) or not _plain(plan, source, graph):
        return None
    view = _only_child(graph, source.id)
    if not isinstance(view, PipelineNode) or view.materialization != "view" or view.depends_on != (source.id,):
        return None
    sink = _only_child(graph, view.id)
    if not isinstance(sink, SinkNode) or sink.depends_on != (view.id,):
        return None
    task = plans[sink.id].task
    if plans[sink.id].refusal is not None or plans[sink.id].rereads or not isinstance(task, DrainTask):
        return None
    if not _takes_all(task, registry) or not _apart(context, source, sink, task):
        return None
    if not words.only_in(view.id, source.relation) or not words.only_in(view.id, view.relation):
        return None
    contract = tuple(source.columns or ())
    return PassInto(view.id, sink.id) if _keeps_rows(view.sql, source.relation, contract) else None


def _plain(plan: NodePlan, source: SourceNode, graph: Graph) -> bool:
    """Whether a read is nothing but a scan of all there is, about which nothing is remembered."""
    task = plan.task
    return (
        isinstance(task, LandTask)
        and task.tier == "native"
        and plan.refusal is None
        and plan.read_shape == "full"
        and source.incremental is None
        and source.sync is None
        and (graph.project.on_source_drift == "ignore" or bool(source.columns))
    )


def _only_child(graph: Graph, id: str) -> object:
    children = graph.children(id)
    return graph.node(children[0]) if len(children) == 1 else None


def _takes_all(task: DrainTask, registry: Registry) -> bool:
    """Whether a load is one pass over its rows, all of which must arrive."""
    try:
        strategy = cast(Strategy, registry.load("strategy", task.write.strategy))
    except PzError:
        return False
    if strategy.traits.takes_keys or task.write.keys or task.ledger is not None or task.deletes is not None:
        return False
    return task.write.load_mode != "rewrite"


def _apart(context: Context, source: SourceNode, sink: SinkNode, task: DrainTask) -> bool:
    """Whether reading cannot stand in the way of writing: a database's reader may hold a lock that its writer needs."""
    if source.connector == sink.connector and task.write.load_mode == "program":
        return False
    limited = context.graph.project.connections[source.connection].max_concurrency is not None
    return not (limited and source.connection == sink.connection)


class _Words:
    """Which words stand in the SQL of which nodes, found once: any of them may read what would not be there."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: dict[str, set[str]] = {}

    def only_in(self, id: str, relation: str) -> bool:
        """Whether no SQL but that of one node can read a relation."""
        if not self._nodes:
            for node in self._graph.nodes:
                for word in set(_WORD.findall(_text(node))):
                    self._nodes.setdefault(word, set()).add(node.id)
        name = relation.lower()
        words = (name, *_ASK)
        return _WORD.fullmatch(name) is not None and all(self._nodes.get(word, set()) <= {id} for word in words)


def _text(node: Node) -> str:
    if isinstance(node, PipelineNode):
        return node.sql.lower()
    return canonical_json(node.entry.definition.options).lower() if isinstance(node, CheckNode) else ""


def _keeps_rows(sql: str, relation: str, contract: tuple[str, ...]) -> bool:
    """Whether a query is a select list over the relation and no more, so that it makes one row of each.

    A contract holds for every value that lands, whoever asks for it. So all its columns must be asked for, and not
    only where some condition is true: what nobody asks for, DuckDB does not look at.
    """
    try:
        trees = parse(sql)
    except NotParsed:
        return False
    if len(trees) != 1 or not set(trees[0]) <= _SELECT or trees[0].get("type") != "SELECT_NODE":
        return False
    table: Any = trees[0].get("from_table") or {}
    ours = str(table.get("table_name", "")).lower() == relation.lower()
    if not ours or table.get("type") != "BASE_TABLE" or str(table.get("schema_name", "")).lower() != "staging":
        return False
    if not set(table) <= _TABLE or trees[0].get("aggregate_handling") != "STANDARD_HANDLING":
        return False
    items: list[Tree] = trees[0].get("select_list", [])
    return bool(items) and one_row_each(items) and (not contract or _asks_for_all(items, table, contract))


def _asks_for_all(items: list[Tree], table: Tree, contract: tuple[str, ...]) -> bool:
    if table.get("column_name_alias"):
        return False
    asked: set[str] = set()
    todo = list(items)
    while todo:
        item = todo.pop()
        kind = item.get("class")
        if kind == "STAR":
            if set(item) <= _WHOLE_STAR:
                return True
        elif kind == "COLUMN_REF":
            asked.add(str(item["column_names"][-1]).lower())
        elif kind == "CAST":
            todo.append(item["child"])
        elif kind == "FUNCTION" and item.get("is_operator"):
            todo.extend(item.get("children", ()))
    return {name.lower() for name in contract} <= asked
