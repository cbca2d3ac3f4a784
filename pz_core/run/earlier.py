"""What the run before recorded, seen from the project as it is now.

Sources: engine.md 1.12, DECISIONS 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from pz_core.compile.cursors import later
from pz_core.compile.model import Graph, Node, SinkNode
from pz_core.contract.state import StateEntry
from pz_core.errors import Notice, Where
from pz_core.plugins import Registry
from pz_core.run.feeds import Candidate, TokenFile, stored_token, token_digest
from pz_core.run.fingerprints import connection_fingerprint
from pz_core.run.history import runs_dir
from pz_core.run.results import FILE, NodeRecord, NodeResult, RunRecord, read_results
from pz_core.run.reuse import CARRIED_FORWARD, ancestry
from pz_core.run.state import SYNC_STATE, WATERMARKS, Stored, family, open_state, stored_watermark

SUCCESS = "success"


class StoredState(Struct, frozen=True):
    """What is stored now, by dataset."""

    watermarks: Mapping[str, StateEntry] = field(default_factory=dict)
    tokens: Mapping[str, StateEntry] = field(default_factory=dict)

    @classmethod
    def read(cls, graph: Graph, record: RunRecord, registry: Registry) -> StoredState:
        """Look into the state, if the run before has anything that is compared with it.

        Raises:
            PzError: PZ0125, PZ0518 or PZ0519 if it cannot be looked at.
        """
        if not any(node.raw.get("watermark") or node.raw.get("read") for node in record.nodes):
            return cls()
        backend = open_state(graph.project.state, graph.project.root, registry)
        try:
            return cls(dict(backend.entries(WATERMARKS)), dict(backend.entries(SYNC_STATE)))
        finally:
            backend.close()


class EarlierRun:
    """What the run before recorded, by nodes of the project as it is now; a node that was edited has nothing there.

    Args:
        graph: of the project.
        record: of the run.
        registry: where connectors are found.
    """

    def __init__(self, graph: Graph, record: RunRecord, registry: Registry) -> None:
        self.record = record
        directory = runs_dir(graph.project.root) / record.run_id
        self.staging = directory / "staging.duckdb"
        self.tokens: Mapping[str, Candidate] = TokenFile(directory).read()
        self._graph = graph
        self._registry = registry
        self._setups: dict[str, str | None] = {}
        self._by_name = recorded_nodes(record)
        self._by_id = {recorded.id: recorded for recorded in reversed(record.nodes)}  # of two, the first counts

    def done(self, node: Node) -> NodeRecord | None:
        """The record of a node that succeeded and has not changed."""
        found = self._by_id.get(node.id)
        return found if found is not None and found.status == SUCCESS and found.kind == node.kind.value else None

    def unfinished(self, node: Node) -> NodeRecord | None:
        """The record of a node that failed or was stopped and has not changed."""
        found = self._by_id.get(node.id)
        return found if found is not None and found.status != SUCCESS and found.kind == node.kind.value else None

    def stagings(self, connection: str) -> tuple[Path, ...]:
        """Staging files of this run and of those that it was a retry of, newest first.

        It ends before a run that had the connection set up otherwise, or whose file is gone.
        """
        found: list[Path] = []
        run: RunRecord | None = self.record
        while run is not None and run.run_id not in {path.parent.name for path in found}:
            path = self.staging.parent.parent / run.run_id / self.staging.name
            had = (run.connections or {}).get(connection)
            if not path.is_file() or had is None or had != self._setup(connection):
                break
            found.append(path)
            run = None if run.retry_of is None else _record(path.parent.parent / run.retry_of)
        return tuple(found)

    def moved(self, connection: str) -> str | None:
        """Why what the run left may not be of the place that a connection leads to now; ``None`` if it is."""
        if self.record.connections is None or connection not in self.record.connections:
            return f"run {self.record.run_id} does not tell how connection '{connection}' was set up"
        if self._setup(connection) != self.record.connections[connection]:
            return f"connection '{connection}' is set up otherwise than in run {self.record.run_id}"
        return None

    def _setup(self, connection: str) -> str | None:
        if connection not in self._setups:
            self._setups[connection] = connection_fingerprint(self._graph.project, connection, self._registry)
        return self._setups[connection]

    def edited(self, node: Node) -> bool:
        """Whether a node of this kind and name succeeded, and is another one now."""
        found = self._by_name.get((node.kind.value, node.name))
        return found is not None and found.status == SUCCESS and found.id != node.id

    def carried(self, node: Node, *, watermark: bool = False) -> NodeResult:
        """The result of a node that is taken as it was."""
        recorded = self.done(node)
        assert recorded is not None  # looked at before
        return NodeResult(
            node.id,
            node.kind.value,
            node.name,
            "success",
            rows=recorded.rows,
            provenance=CARRIED_FORWARD,
            watermark=mapping(recorded.raw.get("watermark")) if watermark else None,
            observed_schema=mapping(recorded.raw.get("observed_schema")),
            feed=self.tokens.get(node.id) if watermark else None,
            read=mapping(recorded.raw.get("read")),
            ancestry=ancestry(self._graph, node.id) if isinstance(node, SinkNode) else None,
        )

    def same_above(self, sink: SinkNode) -> bool:
        """Whether everything above an output is what its rows came from."""
        recorded = self.done(sink)
        if recorded is None:
            return False
        if recorded.provenance == CARRIED_FORWARD:
            # Pipelines between were not run for it, so that only this says what its rows came from.
            return bool(recorded.raw.get("ancestry") == ancestry(self._graph, sink.id))
        return all(self.done(self._graph.node(id)) is not None for id in self._graph.ancestors(sink.id))


def recorded_nodes(record: RunRecord) -> dict[tuple[str, str], NodeRecord]:
    """The nodes of a run by kind and name; of two, the first counts."""
    made: dict[tuple[str, str], NodeRecord] = {}
    for node in record.nodes:
        made.setdefault((node.kind, node.name), node)
    return made


def _record(directory: Path) -> RunRecord | None:
    try:
        return read_results(directory / FILE)
    except (OSError, ValueError):
        return None


def base_of(facts: Mapping[str, Any] | None) -> Stored | None:
    """The watermark that a read started from, out of what it recorded."""
    found = mapping((facts or {}).get("from"))
    return None if found is None else stored_watermark(StateEntry(found, ""))


def watermark_moved(base: Stored | None, candidate: Mapping[str, Any] | None, entry: StateEntry | None) -> str | None:
    """Why a staged slice does not begin where the watermark is; ``None`` if it does, or if it made the watermark.

    Below the watermark rows would be passed over, above it they would be delivered a second time.

    Args:
        base: the watermark that the read started from.
        candidate: the one that it ended at, as recorded: the run has stored it where all outputs had the rows.
        entry: what is stored now.
    """
    now = None if entry is None else stored_watermark(entry)
    if now is None:
        return None if base is None else "its watermark was cleared since"
    if candidate is not None and all(getattr(now, part) == candidate.get(part) for part in ("cursor", "type", "value")):
        return None
    if base is None:
        return "its watermark was set since"
    if now.cursor.casefold() != base.cursor.casefold() or family(now.type) != family(base.type):
        return "its watermark is one of another cursor now"
    if later(base.type, base.value, now.value):
        return "its watermark was set back since"
    return "its watermark was moved on since" if later(base.type, now.value, base.value) else None


def token_moved(facts: Mapping[str, Any] | None, entry: StateEntry | None) -> str | None:
    """Why the staged part of a feed does not begin where its token is now; ``None`` if it does."""
    started = mapping((facts or {}).get("feed")) or {}
    if started.get("fromHash") == token_digest(stored_token(entry)):
        return None
    return "its token was cleared since" if entry is None else "its token is another one now"


def told(message: str, node: str) -> Notice:
    """A note about a node."""
    return Notice("note", message, where=Where(node=node))


def mapping(value: object) -> Mapping[str, Any] | None:
    """The value if it is a mapping."""
    return value if isinstance(value, Mapping) else None
