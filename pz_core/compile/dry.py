"""Tier 4: every pipeline is bound by a throwaway DuckDB against empty tables made from contracts. No row is read."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from pz_core.compile.assemble import source_line
from pz_core.compile.model import Graph, Node, NodeKind, PipelineNode, SourceNode
from pz_core.compile.select import with_ancestors
from pz_core.errors import Problems, Where
from pz_core.values import duckdb_type, quote_path
from pz_core.values.duckdb_text import first_line

if TYPE_CHECKING:
    from pz_core.project.model import PipelineFile

_ECHO_LINE = re.compile(r"(?m)^LINE (\d+):")
#: DuckDB's words where it may not touch a file or lacks an extension that a run may have: no verdict on the SQL.
_NO_VERDICT = (
    "file system operations are disabled",
    "disabled by configuration",
    "disabled through configuration",
    "but it exists in the",
)


class DryReport(Struct, frozen=True):
    """What a dry compile looked at.

    Args:
        bound: number of pipelines that bind.
        skipped: pipelines that could not be judged, in execution order.
        undeclared: datasets without ``columns:`` (``connection.entity``), for which pipelines were skipped.
    """

    bound: int
    skipped: tuple[str, ...]
    undeclared: tuple[str, ...]


def dry_compile(graph: Graph, *, only: Collection[str] | None = None) -> DryReport:
    """Bind pipelines without running them.

    What depends on a dataset without a contract, on a file that DuckDB would have to open, or on an extension that only
    a run loads is skipped; it is still parsed.

    Args:
        graph: the compiled project.
        only: ids of nodes to look at; pipelines above them are bound too. All by default.

    Raises:
        PzErrors: PZ0401 for each pipeline that does not parse, is no single query, or does not bind. What depends on
            such a one is skipped.
    """
    wanted = None if only is None else with_ancestors(graph, only)
    nodes = [n for n in graph.nodes if wanted is None or n.id in wanted]
    if not any(n.kind is NodeKind.PIPELINE for n in nodes):
        return DryReport(0, (), ())
    run = _Dry(graph)
    try:
        for node in nodes:
            run.visit(node)
    finally:
        run.close()
    run.problems.raise_if_any()
    return DryReport(run.bound, tuple(run.skipped), tuple(sorted(run.undeclared)))


class _Dry:
    def __init__(self, graph: Graph) -> None:
        import duckdb

        self.problems = Problems()
        self.bound = 0
        self.skipped: list[str] = []
        self.undeclared: set[str] = set()
        self._graph = graph
        self._files: dict[str, PipelineFile] = {p.name: p for p in graph.project.pipelines}
        self._unknown: set[str] = set()  # ids of nodes whose relation is not there, or not as a run will have it
        self._duckdb = duckdb
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "threads": 1,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
            },
        )
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("CREATE SCHEMA staging")
        self._connection.execute("SET enable_external_access = false")

    def close(self) -> None:
        self._connection.close()

    def visit(self, node: Node) -> None:
        if isinstance(node, SourceNode):
            self._make_source(node)
        elif isinstance(node, PipelineNode):
            self._bind(node)

    def _make_source(self, node: SourceNode) -> None:
        if not node.columns:
            self._unknown.add(node.id)
            self.undeclared.add(node.dataset)
            return
        columns = ", ".join(f"{quote_path(name)} {duckdb_type(word)}" for name, word in node.columns.items())
        try:
            self._connection.execute(f"CREATE TABLE {quote_path('staging', node.relation)} ({columns})")
        except self._duckdb.Error as error:
            self._unknown.add(node.id)
            self.problems.error(
                "PZ0401",
                f"the columns: of {node.dataset} make no table: {first_line(str(error))}",
                where=node.where,
                hint="give each column a name of its own; upper and lower case are the same name in SQL",
            )

    def _bind(self, node: PipelineNode) -> None:
        sql = self._with_typed_nulls(node)
        kinds = self._parse(node, sql)
        if kinds is None:
            self._unknown.add(node.id)
            return
        if any(parent in self._unknown for parent in node.depends_on):
            self._unknown.add(node.id)
            self.skipped.append(node.name)
            return
        # A PIVOT that takes its columns from the data finds none here; what it has in a run cannot be told.
        taken_from_data = len(kinds) > 1
        what = "VIEW" if node.materialization == "view" else "TABLE"
        tail = "" if what == "VIEW" else "\nWITH NO DATA"
        try:
            self._connection.execute(f"CREATE {what} {quote_path('staging', node.relation)} AS\n{sql}{tail}")
        except self._duckdb.Error as error:
            self._unknown.add(node.id)
            if (taken_from_data and what == "TABLE") or any(words in str(error) for words in _NO_VERDICT):
                self.skipped.append(node.name)
            else:
                self._refuse(node, sql, error, shift=1)
            return
        self.bound += 1
        if taken_from_data:
            self._unknown.add(node.id)

    def _with_typed_nulls(self, node: PipelineNode) -> str:
        from pz_core.compile.rendered import sentinel

        sql = node.sql
        for parent in node.depends_on:
            source = self._graph.node(parent)
            if isinstance(source, SourceNode) and source.incremental is not None and source.incremental.in_sql:
                word = source.incremental.type or (source.columns or {}).get(source.incremental.cursor) or "timestamp"
                typed = f"CAST(NULL AS {duckdb_type(word)})"
                sql = sql.replace(sentinel(source.connection, source.entity), typed)
        return sql

    def _parse(self, node: PipelineNode, sql: str) -> list[str] | None:
        """Kinds of the statements, ``None`` where the pipeline was refused for what it is."""
        try:
            statements = self._connection.extract_statements(sql)
        except self._duckdb.Error as error:
            self._refuse(node, sql, error, shift=0)
            return None
        kinds = [statement.type.name for statement in statements]
        if kinds == ["SELECT"] or kinds == ["CREATE", "SELECT"]:
            return kinds
        kind = next((k for k in kinds if k != "SELECT"), "")
        what = f"a statement of kind {kind}" if kind else f"{len(kinds)} statements"
        self.problems.error(
            "PZ0401",
            f"pipeline '{node.name}' must be one query, and holds {what}",
            where=Where(node.file),
            hint="write a single SELECT; INSERT INTO {{ sink(…) }} in front of it is the only way to load",
        )
        return None

    def _refuse(self, node: PipelineNode, sql: str, error: Exception, *, shift: int) -> None:
        text = str(error)
        echoed = _ECHO_LINE.search(text)
        line: int | None = None
        if echoed and node.name in self._files:
            at = int(echoed[1]) - shift - 1
            lines = sql.split("\n")
            if 0 <= at < len(lines):
                line = source_line(self._files[node.name], lines[at])
        self.problems.error(
            "PZ0401",
            f"pipeline '{node.name}' does not bind: {first_line(text)}",
            where=Where(node.file, line),
            hint="correct the SQL, or the columns: of what it reads; pz compile writes the SQL as DuckDB sees it to "
            f".pz/target/compiled/{node.name}.sql",
        )
