"""Change captures by hand: which datasets have one, how each stands, and how one is ended.

Source: engine.md 5.7, cli-connectors.md 1.17.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pz_core.compile.model import Graph, SourceNode
from pz_core.contract.capture import CaptureAdmin, CaptureSpec, CaptureStatus
from pz_core.contract.connector import ReadSpec
from pz_core.contract.state import StateBackend, StateEntry
from pz_core.errors import PzError, Where
from pz_core.plan.connections import connection_config, typed_options
from pz_core.plugins import Registry
from pz_core.project.model import SyncConfig
from pz_core.run.feeds import stored_token
from pz_core.run.state import SYNC_STATE, open_state
from pz_core.values import Value


class Captured(Struct, frozen=True):
    """A dataset of the project that is read with ``sync: {mode: cdc}``."""

    connection: str
    entity: str
    sync: SyncConfig
    options: Mapping[str, Value]
    columns: Mapping[str, str] | None
    where: Where

    @property
    def dataset(self) -> str:
        """``connection.entity``."""
        return f"{self.connection}.{self.entity}"


class Standing(Struct, frozen=True):
    """How a captured dataset stands.

    Args:
        captured: the dataset.
        stored: whether a token is stored.
        run_id: of the run that stored it.
        status: what the place says; ``None`` where it was not asked, or could not be.
        error: why it could not be asked.
    """

    captured: Captured
    stored: bool
    run_id: str | None
    status: CaptureStatus | None
    error: PzError | None = None

    @property
    def health(self) -> str:
        """``healthy``, ``unhealthy``, or ``admin unsupported``."""
        if self.error is None and self.status is None:
            return "admin unsupported"
        return "unhealthy" if self.error is not None or (self.status and self.status.faults) else "healthy"


class Captures:
    """The captured datasets of a project. Use it as a context, so that the store is closed.

    Args:
        graph: of the project; datasets that only ``connections.yml`` declares count too.
        registry: where connectors are found.

    Raises:
        PzError: PZ0518, PZ0519 and other faults of the store.
    """

    def __init__(self, graph: Graph, registry: Registry) -> None:
        self._graph, self._registry = graph, registry
        self._datasets = {item.dataset: item for item in _declared(graph)}
        self._backend: StateBackend = open_state(graph.project.state, graph.project.root, registry)
        try:
            self._tokens: Mapping[str, StateEntry] = self._backend.entries(SYNC_STATE)
        except BaseException:
            self._backend.close()
            raise

    def __enter__(self) -> Captures:
        return self

    def __exit__(self, *_: object) -> None:
        self._backend.close()

    def all(self) -> tuple[Standing, ...]:
        """All of them, by name; a place that cannot be asked is told as that."""
        return tuple(self.standing(item) for _, item in sorted(self._datasets.items()))

    def named(self, dataset: str) -> Captured:
        """One of them; the connection's name ends at the first dot.

        Raises:
            PzError: PZ0507 for a text that names no dataset, PZ0508 for one that has no capture.
        """
        connection, dot, entity = dataset.partition(".")
        if not (connection and dot and entity):
            raise PzError("PZ0507", f"'{dataset}' names no dataset", hint="write connection.entity, as in shop.orders")
        found = self._datasets.get(dataset)
        if found is None:
            listed = ", ".join(sorted(self._datasets)) or "none"
            raise PzError(
                "PZ0508",
                f"{dataset} is not declared with sync: {{mode: cdc}}",
                hint=f"datasets whose changes are captured: {listed}",
            )
        return found

    def standing(self, item: Captured) -> Standing:
        """How one stands."""
        entry = self._tokens.get(item.dataset)
        token = stored_token(entry)
        run_id = None if entry is None else entry.payload.get("runId")
        known = run_id if isinstance(run_id, str) else None
        try:
            admin = self._admin(item)
            status = None if admin is None else admin.capture_status(self._spec(item, token))
        except PzError as error:
            return Standing(item, entry is not None, known, None, error)
        return Standing(item, entry is not None, known, status)

    def remove(self, item: Captured, *, dry_run: bool) -> tuple[str, ...]:
        """End a capture at its place: what is or would be removed there.

        Raises:
            PzError: PZ0338 if its connector has nothing to remove; what the connector says.
        """
        admin = self._admin(item)
        if admin is None:
            raise PzError(
                "PZ0338",
                f"{item.dataset}: its connector cannot end a capture",
                where=item.where,
                hint=f"pz state clear {item.dataset} forgets the place in the log; end the capture where the data is",
            )
        return admin.drop_capture(self._spec(item, None), dry_run=dry_run)

    def has_token(self, item: Captured) -> bool:
        """Whether anything is stored for it."""
        return item.dataset in self._tokens

    def _admin(self, item: Captured) -> CaptureAdmin | None:
        connection = self._graph.project.connections[item.connection]
        target = self._registry.load("connector", connection.connector)
        made = target(connection_config(self._graph.project, item.connection, self._registry))
        return made if isinstance(made, CaptureAdmin) else None

    def _spec(self, item: Captured, token: str | None) -> ReadSpec:
        connection = self._graph.project.connections[item.connection]
        target = self._registry.load("connector", connection.connector)
        return ReadSpec(
            item.entity,
            typed_options(target.read_options, item.options),
            item.columns,
            token=token,
            capture=CaptureSpec(self._graph.project.name, item.sync.slot),
        )


def _declared(graph: Graph) -> list[Captured]:
    made: dict[str, Captured] = {}
    for connection in graph.project.connections.values():
        for entity in connection.entities.values():
            read = entity.read
            if read is not None and read.sync is not None and read.sync.mode == "cdc":
                item = Captured(connection.name, entity.name, read.sync, read.options, read.columns, read.where)
                made[item.dataset] = item
    for node in graph.nodes:
        if isinstance(node, SourceNode) and node.sync is not None and node.sync.mode == "cdc":
            item = Captured(node.connection, node.entity, node.sync, node.options, node.columns, node.where)
            made[item.dataset] = item
    return list(made.values())
