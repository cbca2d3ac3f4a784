"""The graph: nodes with ids, edges and final SQL. Frozen, the same bytes for the same project everywhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Union

from msgspec import Struct

from pz_core.errors import Notice, Where
from pz_core.project.model import CheckEntry, Project, RetryConfig, SyncConfig
from pz_core.values import Value


class NodeKind(str, Enum):
    """Kinds of nodes, in the order in which ready nodes go first. The value is the word in results and events."""

    SOURCE = "SourceLoad"
    PIPELINE = "Pipeline"
    CHECK = "Check"
    SINK = "SinkWrite"

    @property
    def manifest_word(self) -> str:
        """The word in ``manifest.json`` and ``pz ls``."""
        return _MANIFEST_WORDS[self]

    @property
    def rank(self) -> int:
        """Smaller goes first among ready nodes."""
        return _RANKS[self]


_MANIFEST_WORDS = {
    NodeKind.SOURCE: "source_load",
    NodeKind.PIPELINE: "pipeline",
    NodeKind.CHECK: "check",
    NodeKind.SINK: "sink_write",
}
_RANKS = {kind: rank for rank, kind in enumerate(NodeKind)}


class RunConstants(Struct, frozen=True):
    """What templates see of the run. The defaults are those of every verb that is not a run."""

    run_id: str = "00010101T000000000Z-0000"
    run_started_at: str = "0001-01-01T00:00:00.000000Z"


class WatermarkBound(Struct, frozen=True):
    """One recognised comparison of a cursor with an expression of ``watermark()``.

    Args:
        op: ``>``, ``>=`` (floors), ``<``, ``<=`` (ceilings), cursor on the left.
        expression: the value side in SQL, with the sentinel in it.
    """

    op: str
    expression: str


class Incremental(Struct, frozen=True):
    """How a dataset is read incrementally: declared in YAML (``sync``) or in SQL (``bounds``)."""

    cursor: str
    type: str | None = None
    sync: SyncConfig | None = None
    bounds: tuple[WatermarkBound, ...] = ()

    @property
    def in_sql(self) -> bool:
        """Whether SQL declared it."""
        return self.sync is None


class SourceNode(Struct, frozen=True):
    """A dataset that a pipeline reads; lands in ``staging.<relation>``, which is also its name."""

    id: str
    name: str
    connection: str
    connector: str
    entity: str
    options: Mapping[str, Value]
    columns: Mapping[str, str] | None
    readers: tuple[str, ...]
    sync: SyncConfig | None = None
    incremental: Incremental | None = None
    retry: RetryConfig | None = None
    where: Where = Where()
    depends_on: tuple[str, ...] = ()
    kind: NodeKind = NodeKind.SOURCE

    @property
    def relation(self) -> str:
        """Its relation in the schema ``staging``."""
        return self.name

    @property
    def dataset(self) -> str:
        """``connection.entity``."""
        return f"{self.connection}.{self.entity}"


class PipelineNode(Struct, frozen=True):
    """A pipeline that is not ephemeral.

    Args:
        sql: what runs, with ephemerals inlined and watermark sentinels still in it.
        headers: generated comment lines of the compiled file, without line ends.
        materialization: ``table`` or ``view``.
    """

    id: str
    name: str
    file: str
    sql: str
    materialization: str = "table"
    headers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    where: Where = Where()
    kind: NodeKind = NodeKind.PIPELINE

    @property
    def relation(self) -> str:
        """Its relation in the schema ``staging``."""
        return self.name


class CheckNode(Struct, frozen=True):
    """A check of a pipeline."""

    id: str
    name: str
    pipeline: str
    entry: CheckEntry
    samples: bool
    where: Where = Where()
    depends_on: tuple[str, ...] = ()
    kind: NodeKind = NodeKind.CHECK


class SinkNode(Struct, frozen=True):
    """An output that a pipeline loads; its name is ``connection.entity``, unfolded."""

    id: str
    name: str
    connection: str
    connector: str
    entity: str
    pipeline: str
    strategy: str
    keys: tuple[str, ...]
    schema_policy: str
    options: Mapping[str, Value]
    duplicates: str | None = None
    on_delete: str | None = None
    retry: RetryConfig | None = None
    where: Where = Where()
    depends_on: tuple[str, ...] = ()
    kind: NodeKind = NodeKind.SINK


Node = Union[SourceNode, PipelineNode, CheckNode, SinkNode]


class Flow(Struct, frozen=True):
    """A connected component of the graph, labelled by its sinks, or by its leaves where it has none."""

    label: str
    nodes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Graph:
    """All nodes in execution order, with the project they came from and what was noticed on the way."""

    project: Project
    nodes: tuple[Node, ...]
    flows: tuple[Flow, ...] = ()
    notices: tuple[Notice, ...] = ()
    constants: RunConstants = dataclasses.field(default_factory=RunConstants)
    _by_id: dict[str, Node] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    _by_name: dict[str, Node] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    _children: dict[str, list[str]] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for node in self.nodes:
            self._by_id[node.id] = node
            self._by_name[node.name] = node
            for parent in node.depends_on:
                self._children.setdefault(parent, []).append(node.id)

    def node(self, id: str) -> Node:
        """The node with this id."""
        return self._by_id[id]

    def named(self, name: str) -> Node | None:
        """The node with this name, if there is one."""
        return self._by_name.get(name)

    def children(self, id: str) -> tuple[str, ...]:
        """Ids of the nodes that depend on this one, in execution order."""
        return tuple(self._children.get(id, ()))

    def ancestors(self, id: str) -> frozenset[str]:
        """Ids of all nodes that this one depends on, itself not among them."""
        return self._closure(id, lambda i: self._by_id[i].depends_on)

    def descendants(self, id: str) -> frozenset[str]:
        """Ids of all nodes that depend on this one, itself not among them."""
        return self._closure(id, self.children)

    @staticmethod
    def _closure(start: str, step: object) -> frozenset[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for other in step(todo.pop()):  # type: ignore[operator]
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return frozenset(seen)
