"""What a source may leave out, read from the SQL of its one reader: columns not asked for, rows that WHERE drops.

The pipeline runs its SQL unchanged over what landed, so leaving too little out is always correct; whenever a query's
meaning depends on columns or rows that it does not name, nothing is left out. Names are judged by DuckDB's own tree.

Columns: a name counts wherever it could mean a column of the dataset. A star, ``NATURAL``, ``#1``, a renamed table and
a reference to a whole row see all columns.

Rows: a conjunct of a WHERE is applied before the FROM beside it only if the dataset stands once in the whole query, and
every join above it in that FROM keeps its rows apart from each other (never on a side that is filled with NULLs).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from pz_core.compile.model import CheckNode, Graph, Node, PipelineNode, SourceNode
from pz_core.compile.sqlparse import NotParsed, Tree, parse
from pz_core.contract.capabilities import Capabilities
from pz_core.contract.connector import ReadHints
from pz_core.plan.predicates import Conjunct
from pz_core.values import canonical_json

_SCHEMA = "staging"
#: Functions that find a table by a text, so that its name need not stand in the SQL.
_ASKS = re.compile(r"\bquery(?:_table)?\s*\(")
_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
#: Table functions that look at their arguments only.
_TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
#: By kind of join: whether a filter on the left, on the right side may be applied before it.
_FREE = {
    "INNER": (True, True),
    "LEFT": (True, False),
    "RIGHT": (False, True),
    "SEMI": (True, False),
    "ANTI": (True, False),
}
#: Parts of a SELECT in which a name may mean a column of the select list.
_LATE = ("modifiers", "group_expressions", "having", "qualify")


class Pushdown(Struct, frozen=True):
    """What can be left out.

    Args:
        hints: for the read; its columns hold every name that could be meant, so some may not exist.
        columns: the names that the query asks for, to be told.
    """

    hints: ReadHints = field(default_factory=ReadHints)
    columns: tuple[str, ...] | None = None


def derive(sql: str, relation: str, *, cursor: str | None = None) -> Pushdown:
    """What the one reader of a dataset lets its source leave out.

    Args:
        sql: the reader's final query, ephemeral pipelines inlined.
        relation: the dataset's relation in the schema ``staging``.
        cursor: column of an incremental read, which is never left out.
    """
    try:
        trees = parse(sql)
        if len(trees) != 1:
            return Pushdown()
        return _Reader(trees[0], relation).answer(cursor)
    except (NotParsed, _Unclear, RecursionError):
        return Pushdown()


def pushdown_of(
    graph: Graph, node: SourceNode, shape: str, able: Capabilities, texts: dict[str, str] | None = None
) -> Pushdown:
    """What is pushed to one source: what its reader allows and its connector can do.

    Nothing under a contract, which says by itself what is read and is enforced on all of it; no filter on a read that
    resumes, since its watermark is the greatest value that landed.

    Args:
        graph: the compiled project.
        node: the source.
        shape: how it is read: ``full``, ``feed``, ``cdc``, ``incremental cursor=…``.
        able: what its connector can do.
        texts: kept between calls for one graph, so that every text is prepared once.
    """
    resumed = node.incremental is not None
    if not (able.column_pruning or able.predicate_pushdown) or node.columns or not (resumed or shape == "full"):
        return Pushdown()
    readers = [graph.node(child) for child in graph.children(node.id)]
    if len(readers) != 1 or not isinstance(readers[0], PipelineNode):
        return Pushdown()
    texts = {} if texts is None else texts
    if not texts:
        texts.update((other.id, text_of(other)) for other in graph.nodes)
    relation = node.relation.lower()
    if any(relation in text or _ASKS.search(text) for id, text in texts.items() if text and id != readers[0].id):
        return Pushdown()
    made = derive(readers[0].sql, node.relation, cursor=node.incremental.cursor if node.incremental else None)
    # Whoever looks for columns that were added must see them.
    pruned = able.column_pruning and graph.project.on_source_drift == "ignore"
    filtered = able.predicate_pushdown and not resumed and made.hints.predicate is not None
    return Pushdown(
        ReadHints(
            made.hints.columns if pruned else None,
            made.hints.predicate if filtered else None,
            made.hints.needs if filtered else {},
        ),
        made.columns if pruned else None,
    )


def text_of(node: Node) -> str:
    """The SQL that a node brings to the database, in lower case."""
    if isinstance(node, PipelineNode):
        return node.sql.lower()
    return canonical_json(node.entry.definition.options).lower() if isinstance(node, CheckNode) else ""


class _Unclear(Exception):
    """The query holds something whose meaning may depend on what it does not name."""


class _Place(Struct, eq=False):
    """A table in a FROM; ``free`` is whether a filter on it may be applied before the joins above it."""

    alias: str
    ours: bool
    free: bool


class _Block(Struct, eq=False):
    """A SELECT with the tables of its own FROM; ``all_seen`` is whether its FROM itself sees all columns."""

    node: Tree
    places: list[_Place] = field(default_factory=list)
    all_seen: bool = False
    renamed: bool = False

    @property
    def ours(self) -> list[_Place]:
        return [place for place in self.places if place.ours]

    @property
    def given_names(self) -> frozenset[str]:
        """Names that the select list gives."""
        return frozenset(str(item["alias"]).lower() for item in self.node.get("select_list", ()) if item.get("alias"))


class _Reader:
    def __init__(self, tree: Tree, relation: str) -> None:
        self._relation = relation.lower()
        self._blocks: dict[int, _Block] = {}
        for node in _everything(tree):
            kind = str(node.get("type"))
            if "sample" in node or (kind.endswith("_NODE") and kind not in _QUERIES):
                raise _Unclear
            if kind == "SELECT_NODE":
                block = self._blocks[id(node)] = _Block(node)
                self._from(node.get("from_table"), True, block)
        named = sum(self._is_ours(node) for node in _everything(tree))
        self._ours = [(block, place) for block in self._blocks.values() for place in block.ours]
        if not self._ours or named != len(self._ours):
            raise _Unclear
        every = [place for block in self._blocks.values() for place in block.places]
        self._aliases = {place.alias for place in every if place.ours}
        self._others = {place.alias for place in every if not place.ours}
        self._asked: dict[str, str] = {}
        self._possible: dict[str, str] = {}
        self._all_seen = any(block.all_seen or block.renamed for block, _ in self._ours)
        self._by_row_id = False
        self._visit(tree, None, False, frozenset())

    def answer(self, cursor: str | None) -> Pushdown:
        columns: tuple[str, ...] | None = None
        told: tuple[str, ...] | None = None
        if self._asked and not self._all_seen:
            if cursor is not None:
                self._asked.setdefault(cursor.lower(), cursor)
            told = _sorted(self._asked.values())
            columns = _sorted({**self._possible, **self._asked}.values())
        predicate, needs = self._filter()
        return Pushdown(ReadHints(columns, predicate, needs), told)

    # --- FROM ---------------------------------------------------------------------------------------------------

    def _is_ours(self, node: Tree) -> bool:
        """Whether a table is the dataset's.

        Raises:
            _Unclear: if it may be, but is not named in the one way that is sure.
        """
        if node.get("type") != "BASE_TABLE" or str(node.get("table_name", "")).lower() != self._relation:
            return False
        if str(node.get("schema_name", "")).lower() != _SCHEMA or node.get("catalog_name"):
            raise _Unclear
        return True

    def _from(self, node: Tree | None, free: bool, block: _Block) -> None:
        kind = "EMPTY" if not node else str(node.get("type"))
        if not node or kind == "EMPTY":
            return
        if kind == "JOIN":
            self._join(node, free, block)
            return
        if kind == "TABLE_FUNCTION":
            if str(node.get("function", {}).get("function_name", "")).lower() not in _TABLE_FUNCTIONS:
                raise _Unclear
        elif kind not in ("BASE_TABLE", "SUBQUERY", "EXPRESSION_LIST"):
            raise _Unclear
        ours = self._is_ours(node)
        if ours and node.get("column_name_alias"):
            block.renamed = True
        block.places.append(_Place(str(node.get("alias") or node.get("table_name", "")).lower(), ours, free))

    def _join(self, node: Tree, free: bool, block: _Block) -> None:
        how, kind = str(node.get("ref_type", "REGULAR")), str(node.get("join_type", "INNER"))
        left, right = _FREE.get(kind, (False, False))
        if how == "ASOF":
            # Every row on the left finds its own partner among all rows on the right.
            left, right = kind in ("INNER", "LEFT"), False
        elif how not in ("REGULAR", "CROSS", "DEPENDENT"):
            left = right = False
            block.all_seen = True
        if how == "POSITIONAL":
            raise _Unclear
        if node.get("column_name_alias"):
            block.renamed = True
        self._from(node.get("left"), free and left, block)
        self._from(node.get("right"), free and right, block)

    # --- columns ------------------------------------------------------------------------------------------------

    def _visit(self, item: Any, block: _Block | None, visible: bool, late: frozenset[str]) -> None:
        """Collect names below an item.

        Args:
            item: a part of the tree.
            block: the SELECT that it belongs to.
            visible: whether the dataset's columns can be named here.
            late: names of the select list that can be meant here.
        """
        if isinstance(item, list):
            for part in item:
                self._visit(part, block, visible, late)
            return
        if not isinstance(item, dict):
            return
        own = self._blocks.get(id(item))
        if own is not None:
            block, visible, late = own, visible or bool(own.ours), frozenset()
        kind = item.get("class")
        if kind == "POSITIONAL_REFERENCE" or (kind == "STAR" and block is not None and block.ours):
            self._all_seen = True
        elif kind == "COLUMN_REF" and visible:
            self._named(item["column_names"], late)
        if visible:
            for name in item.get("using_columns", ()):
                self._asked.setdefault(name.lower(), name)
        for key, value in item.items():
            if isinstance(value, (dict, list)):
                self._visit(value, block, visible, own.given_names if own is not None and key in _LATE else late)

    def _named(self, names: Sequence[str], late: frozenset[str]) -> None:
        parts = [name.lower() for name in names]
        if parts[-1] in self._aliases or parts[-1] == self._relation:
            self._all_seen = True  # the whole row, or a column that cannot be told from it
        if parts[-1] == "rowid":
            self._by_row_id = True
        first = parts[0]
        if len(parts) == 1:
            into = self._possible if first in late else self._asked
            into.setdefault(first, names[0])
            return
        if first in self._aliases:
            self._asked.setdefault(parts[1], names[1])
        elif first == _SCHEMA and len(parts) > 2:
            if parts[1] == self._relation:
                self._asked.setdefault(parts[2], names[2])
        elif first in self._others:
            self._possible.setdefault(first, names[0])  # unless it is a field of a column with that name
            return
        else:
            self._asked.setdefault(first, names[0])
        for part, name in zip(parts, names, strict=True):
            self._possible.setdefault(part, name)

    # --- rows ---------------------------------------------------------------------------------------------------

    def _filter(self) -> tuple[str | None, dict[str, tuple[str, ...]]]:
        if len(self._ours) != 1 or self._by_row_id:
            return None, {}
        block, place = self._ours[0]
        if not place.free or block.all_seen or block.renamed or [p.alias for p in block.places].count(place.alias) > 1:
            return None, {}
        alone = len(block.places) == 1
        given = block.given_names
        unaliased = place.alias == self._relation

        def resolve(names: Sequence[str]) -> str | None:
            parts = [name.lower() for name in names]
            if parts[-1] == place.alias:
                return None
            if len(parts) == 1:
                return names[0] if alone and parts[0] not in given else None
            if len(parts) == 2:
                return names[1] if parts[0] == place.alias else None
            qualified = len(parts) == 3 and unaliased and parts[:2] == [_SCHEMA, self._relation]
            return names[2] if qualified else None

        texts: list[str] = []
        needs: dict[str, set[str]] = {}
        for part in _conjuncts(block.node.get("where_clause")):
            conjunct = Conjunct(part, resolve)
            if conjunct.text is not None:
                texts.append(f"({conjunct.text})")
                for column, what in conjunct.needs.items():
                    needs.setdefault(column, set()).update(what)
        if not texts:
            return None, {}
        return " AND ".join(texts), {column: tuple(sorted(what)) for column, what in sorted(needs.items())}


def _sorted(names: Any) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (name.lower(), name)))


def _everything(item: Any) -> Iterator[Tree]:
    """All nodes of a tree, nested queries among them."""
    todo: list[Any] = [item]
    while todo:
        at = todo.pop()
        if isinstance(at, dict):
            yield at
            todo.extend(at.values())
        elif isinstance(at, list):
            todo.extend(at)


def _conjuncts(condition: Tree | None) -> Iterator[Tree]:
    if not condition:
        return
    if condition.get("class") == "CONJUNCTION" and condition.get("type") == "CONJUNCTION_AND":
        for child in condition["children"]:
            yield from _conjuncts(child)
    else:
        yield condition
