"""Which rows pass straight from their source into their sink, without being staged on the way.

They may where nothing else needs them: one view reads the dataset, one sink is loaded from the view, nothing is
checked, and no watermark or ledger depends on what landed. The view must make exactly one row of each row, since then
the rows that the target was handed are the rows that were read, and every node can still account for its own.

Source: DESIGN "A row's journey" (how a relation is held is decided here, node by node).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from pz_core.compile.model import Graph, PipelineNode, SinkNode, SourceNode
from pz_core.compile.sqlparse import NotParsed, Tree, one_row_each, parse
from pz_core.contract.engine import DrainTask, LandTask, MaterialiseTask
from pz_core.contract.strategy import Strategy
from pz_core.errors import PzError
from pz_core.plan.model import NodePlan, PassInto
from pz_core.plan.pushdown import text_of
from pz_core.plan.sources import Context
from pz_core.plugins import Registry

#: What a SELECT may consist of to be nothing but its select list over one table.
_SELECT = frozenset({"type", "select_list", "from_table", "aggregate_handling"})
#: Functions that find a table by a text, so that its name need not stand in the SQL.
_ASK = ("query", "query_table")
#: Operators whose result depends on the one column that they are given, beside constants.
_NEEDING = frozenset({"+", "-", "*", "||"})
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
    for plan in plans:
        found = _way(context, plan, by_id, registry, words)
        if found is None:
            continue
        into, asks = found
        told = f"{plan.reason}; rows pass straight into {graph.node(into.sink).name}, and are staged only if that fails"
        by_id[plan.id] = replace(plan, passes_into=into, reason=told)
        view = by_id[into.pipeline]
        assert isinstance(view.task, MaterialiseTask)  # a pipeline's
        by_id[view.id] = replace(view, task=replace(view.task, asks=asks))
    return [by_id[plan.id] for plan in plans]


def _way(
    context: Context, plan: NodePlan, plans: Mapping[str, NodePlan], registry: Registry, words: _Words
) -> tuple[PassInto, frozenset[str] | None] | None:
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
    query = _one_of_each(view.sql, source.relation)
    if query is None:
        return None
    asks = _asked(*query)
    if asks is not None and not {name.lower() for name in source.columns or ()} <= asks:
        return None
    return PassInto(view.id, sink.id), asks


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
    """Whether reading and writing stay out of each other's way.

    A database's reader may hold a lock that its writer needs, and a file that is read may be the one that is replaced.
    """
    if source.connector == sink.connector:
        if task.write.load_mode == "program":
            return False
        # After a load that broke off nobody could tell any more what the source had been before.
        if source.connection == sink.connection or source.entity.casefold() == sink.entity.casefold():
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
                for word in set(_WORD.findall(text_of(node))):
                    self._nodes.setdefault(word, set()).add(node.id)
        name = relation.lower()
        words = (name, *_ASK)
        return _WORD.fullmatch(name) is not None and all(self._nodes.get(word, set()) <= {id} for word in words)


def _one_of_each(sql: str, relation: str) -> tuple[list[Tree], Tree] | None:
    """The select list and the table of a query that is nothing else, and so makes one row of each; else ``None``."""
    try:
        trees = parse(sql)
    except NotParsed:
        return None
    if len(trees) != 1 or not set(trees[0]) <= _SELECT or trees[0].get("type") != "SELECT_NODE":
        return None
    table: Any = trees[0].get("from_table") or {}
    ours = str(table.get("table_name", "")).lower() == relation.lower()
    if not ours or table.get("type") != "BASE_TABLE" or str(table.get("schema_name", "")).lower() != "staging":
        return None
    if not set(table) <= _TABLE or trees[0].get("aggregate_handling") != "STANDARD_HANDLING":
        return None
    items: list[Tree] = trees[0].get("select_list", [])
    return (items, table) if items and one_row_each(items) else None


def _asked(items: list[Tree], table: Tree) -> frozenset[str] | None:
    """The columns whose every value is asked for, ``None`` for all of the table's.

    A value that lands is looked at, whoever asks for it: it has to fit its type, and to be text at all. DuckDB looks at
    what it needs and no more, so only that counts as asked for which no rule of its optimizer can do without.
    """
    if any(item.get("class") == "STAR" and set(item) <= _WHOLE_STAR for item in items):
        return None
    if table.get("column_name_alias"):
        return frozenset()
    alias = str(table.get("alias") or table.get("table_name", "")).lower()
    return frozenset(name for item in items if (name := _needs(item, alias)) is not None)


def _needs(item: Tree, alias: str) -> str | None:
    """The one column that an expression cannot be computed without, for any row."""
    kind = item.get("class")
    if kind == "COLUMN_REF":
        names = [str(name).lower() for name in item["column_names"]]
        return names[-1] if names[:-1] in ([], [alias]) else None  # else perhaps a field of a column
    if kind == "CAST":
        return _needs(item["child"], alias)
    if kind == "FUNCTION" and item.get("is_operator") and item.get("function_name") in _NEEDING:
        children: list[Tree] = item.get("children", [])
        columns = [child for child in children if child.get("class") != "CONSTANT"]
        # NULL makes the whole NULL, and 0 makes a product 0: DuckDB knows that without the column.
        values = [child.get("value", {}) for child in children if child.get("class") == "CONSTANT"]
        if len(columns) == 1 and all(not v.get("is_null", True) and v.get("value") not in (0, None) for v in values):
            return _needs(columns[0], alias)
    return None
