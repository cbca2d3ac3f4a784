"""A plan: for every node, how it will be done, why, and what that guarantees. Made offline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

from msgspec import Struct, field

from pz_core.compile.model import Graph
from pz_core.contract.connector import ReadSpec, Setup, WriteSpec
from pz_core.contract.engine import CheckTask, DrainTask, LandTask, MaterialiseTask
from pz_core.errors import Notice, PzError

Task = Union[LandTask, MaterialiseTask, CheckTask, DrainTask]


class RetryPolicy(Struct, frozen=True):
    """The effective policy of a node, cascaded from entity side, connection and default."""

    max_attempts: int = 3
    base_delay_ms: int = 1_000
    max_delay_ms: int = 30_000


def loaded_ahead(setup: tuple[Setup, ...]) -> tuple[Setup, ...]:
    """What of the statements of an edge can be run before its turn comes."""
    return tuple(step for step in setup if step.kind == "extension")


def imported_ahead(target: object, spec: ReadSpec | WriteSpec) -> tuple[str, ...]:
    """Modules that a connector names for one of its edges; it need not name any."""
    try:
        named = getattr(target, "imports", None)
        given = named(spec) if callable(named) else ()
        return () if isinstance(given, str) else tuple(name for name in given if isinstance(name, str))
    except Exception:  # noqa: BLE001 - a plugin can raise anything, and no plan fails for what only saves time
        return ()


class PassInto(Struct, frozen=True):
    """Where the rows of a source pass straight through to: ids of the view that reads it, and of the view's sink."""

    pipeline: str
    sink: str


class NodePlan(Struct, frozen=True):
    """How one node will be done.

    Args:
        strategy: ``native_scan``, ``native_copy``, ``arrow_stream`` or ``duck_sql``.
        reason: why, and by what mechanism; never holds SQL, a secret or a predicate.
        guarantee: of a sink: ``effectively once`` or ``at least once``; ``None`` for other kinds.
        on_retry: of a sink: what a second delivery of the same batch would do.
        refusal: a refusal that stands only if the node is executed (PZ0353).
        decided_at_run: what depends on types that nobody declared, by topic, and the rule that a run follows.
        ahead: extensions of DuckDB that the node will need; loading one takes a while, and can be done in the meantime.
        imports: modules that the node will need, which take a while to import, too.
        rereads: of a sink: whether its load asks for the rows more than once.
        passes_into: of a source whose rows need not be staged: where they go.
    """

    id: str
    kind: str
    name: str
    strategy: str
    reason: str
    task: Task
    partitions: int = 1
    columns_pushed: tuple[str, ...] | None = None
    predicate_pushed: bool = False
    guarantee: str | None = None
    on_retry: str | None = None
    read_shape: str | None = None
    retry: RetryPolicy | None = None
    refusal: PzError | None = None
    decided_at_run: Mapping[str, str] = field(default_factory=dict)
    ahead: tuple[Setup, ...] = ()
    imports: tuple[str, ...] = ()
    rereads: bool = False
    passes_into: PassInto | None = None


class MemoryBudget(Struct, frozen=True):
    """A ceiling, not a promise, in bytes. ``duckdb_bytes`` is ``None`` where no absolute limit is set."""

    duckdb_bytes: int | None
    channel_bytes: int
    fixed_overhead_bytes: int
    total_bytes: int
    duckdb_disclaimer: str | None = None
    duckdb_threads_disclaimer: str | None = None


class Plan(Struct, frozen=True):
    """All nodes of the graph in execution order, planned."""

    graph: Graph
    nodes: tuple[NodePlan, ...]
    budget: MemoryBudget
    max_concurrency: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    def of(self, id: str) -> NodePlan:
        """The plan of a node."""
        return next(n for n in self.nodes if n.id == id)
