"""The contract of an engine: land, materialise, check, drain.

Tasks are made by the planner and carry all that a node needs; an engine knows nothing of graphs, runs or files of
a project. ``duckdb`` is the default; a distributed engine fits the same four calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from pz_core.contract.check import CheckDefinition
from pz_core.contract.connector import AbortSemantics, Connector, CursorBounds, ReadSpec, Setup, WriteSpec
from pz_core.contract.ledger import LedgerClaim
from pz_core.errors import Notice
from pz_core.values import Column, Value
from pz_core.values.discreet import Discreet

Tier = Literal["native", "universal"]


class NodeRef(Struct, frozen=True):
    """A node's id and display name."""

    id: str
    name: str


def deletes_of(relation: str) -> str:
    """Name of the relation that holds the keys to delete of a captured one."""
    return f"{relation}__deletes"


class Reuse(Struct, frozen=True):
    """Rows that an earlier run has landed: to be copied instead of read again.

    Args:
        staging_path: absolute path of that run's own database file; nobody writes to it any more.
        relation: name of the relation in its schema ``staging``.
        rows: how many it must hold.
    """

    staging_path: str
    relation: str
    rows: int


class Earlier(Struct, frozen=True):
    """What an earlier run has begun and not ended: an engine goes on from it where it can prove that nothing differs.

    Args:
        staging_path: absolute path of that run's own database file; nobody writes to it any more.
    """

    staging_path: str


class NotReusable(Exception):
    """The rows of an earlier run cannot be copied. Nothing of them is visible; the text says why, without a value."""


class LandTask(Struct, frozen=True):
    """Bring an entity's rows into ``staging.<relation>``.

    Args:
        reuse: copy these rows and touch no connector, or raise :class:`NotReusable`. An engine that cannot copy lands
            the rows as if this were not there, and its result says so (``reused``).
        earlier: a run in which this very read failed: partitions that it has whole are copied, or
            :class:`NotReusable` is raised before anything is read. With nothing whole there all is read.
        slice: of an incremental read: what the relation must hold in the end, exactly, whatever the connector made of
            ``read.bounds``. The result then tells of the cursor, too.
        hold: land the columns and no row: the dataset waits for another one in this run.
        feed: whether the place owns a token; the result then tells where the next read goes on.
    """

    node: NodeRef
    relation: str
    connection: str
    connector: str
    tier: Tier
    read: ReadSpec
    slice: CursorBounds | None = None
    reuse: Reuse | None = None
    earlier: Earlier | None = None
    feed: bool = False
    hold: bool = False


class MaterialiseTask(Struct, frozen=True):
    """Make ``staging.<relation>`` from a pipeline's SQL.

    Args:
        asks: of a view on one relation, for :class:`PassingEngine`: names of its columns, in lower case, whose every
            value the view asks for; ``None`` where those are all.
    """

    node: NodeRef
    relation: str
    sql: str
    as_view: bool = False
    asks: frozenset[str] | None = None


class CheckTask(Struct, frozen=True):
    """Count the violations of a rule in ``staging.<relation>``."""

    node: NodeRef
    relation: str
    check: CheckDefinition
    samples: bool = True


class DrainTask(Struct, frozen=True):
    """Load ``staging.<relation>`` into an entity.

    Args:
        earlier: runs in which this very delivery failed, newest first; it goes on after the rows that the target
            confirmed in the first of them that tells any, if they are the same rows.
        ledger: with ``duplicates: 'refuse'``: what to ask of the target's ledger and to write into it with the rows.
        deletes: with ``write.on_delete``: the relation that holds the keys to delete.
    """

    node: NodeRef
    relation: str
    connection: str
    connector: str
    tier: Tier
    write: WriteSpec
    strategy_options: Mapping[str, Value] = field(default_factory=dict)
    source_system: str | None = None
    earlier: tuple[Earlier, ...] = ()
    ledger: LedgerClaim | None = None
    deletes: str | None = None


class TaskWarning(Struct, frozen=True):
    """A coded warning that a task gave; ``fields`` are its numbers, by the names of the probe."""

    code: str
    message: str
    fields: Mapping[str, int] = field(default_factory=dict)


class Stalls(Struct, frozen=True):
    """Milliseconds that each side of a universal edge waited for the other."""

    producer_ms: int = 0
    consumer_ms: int = 0


class CursorFound(Struct, frozen=True):
    """What the cursor column of a landed relation holds.

    Args:
        type: word of the cursor's type (``int``, ``timestamp``, …).
        high: the greatest value in canonical text, ``None`` if there is none.
        nulls: rows without a value.
        duckdb_type: the column's type as DuckDB describes it.
    """

    type: str
    high: str | None
    nulls: int = 0
    duckdb_type: str = ""


class PartitionCounts(Struct, frozen=True):
    """Partitions of a read whose partitions have ids that stay.

    Args:
        total: of the read.
        completed: whole in staging, those of earlier attempts and of an earlier run included.
        reused: taken from an earlier run's file.
        reused_rows: rows of those.
    """

    total: int
    completed: int
    reused: int = 0
    reused_rows: int = 0


class ChangeCounts(Struct, frozen=True):
    """What a change capture read: changes as they came, before only the last one of each key is kept.

    Args:
        inserts, updates, deletes: so many; the first read's rows are inserts.
        deleted_keys: keys whose last change is a delete.
        position: the last change's place in the log, ``None`` if there is none.
    """

    inserts: int
    updates: int
    deletes: int
    deleted_keys: int = 0
    position: str | None = None


class Delivery(Struct, frozen=True):
    """What became of a delivery that is not all or nothing.

    Args:
        abort_semantics: of the sink.
        rows_visible: rows that a failed delivery may have left in the target.
        resumed_rows: rows of an earlier attempt that it went on after.
    """

    abort_semantics: AbortSemantics
    rows_visible: int | None = None
    resumed_rows: int | None = None


class Progress:
    """What a failed task had reached. An engine leaves it on the error that it raises, and a run records it."""

    @staticmethod
    def leave(error: BaseException, reached: PartitionCounts | Delivery) -> None:
        """Attach what was reached."""
        error.__dict__["pz_progress"] = reached

    @staticmethod
    def of(error: BaseException) -> PartitionCounts | Delivery | None:
        """What was attached, ``None`` if nothing was."""
        found = error.__dict__.get("pz_progress")
        return found if isinstance(found, (PartitionCounts, Delivery)) else None


class LandResult(Discreet, frozen=True):
    """Rows read from the place and rows staged; they differ only by what was trimmed and by reused partitions.

    ``reused`` says that the rows are those of :class:`Reuse`, counted, and that no connector was touched. ``token`` is
    where a feed goes on; nothing but its connector looks into it. ``choices`` is what was decided only now, by topic:
    what the plan calls decided at run. ``changes`` is set by an engine that carried out a change capture
    (``read.capture``): the relation holds the rows to write, and :func:`deletes_of` it the keys to delete.
    """

    kept: ClassVar[frozenset[str]] = frozenset({"token"})

    rows_read: int
    rows_staged: int
    columns: tuple[Column, ...] = ()
    trimmed: int = 0
    tier: Tier = "native"
    stalls: Stalls | None = None
    warnings: tuple[TaskWarning, ...] = ()
    cursor: CursorFound | None = None
    reused: bool = False
    partitions: PartitionCounts | None = None
    token: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    changes: ChangeCounts | None = None


class MaterialiseResult(Struct, frozen=True):
    """Rows of the relation; for a view they are counted when asked for, so ``None``."""

    rows: int | None
    columns: tuple[Column, ...] = ()
    notices: tuple[Notice, ...] = ()


class CheckOutcome(Struct, frozen=True):
    """Violations counted, with what may be shown of them.

    ``sample`` and ``detail`` are rows of ``(column, text)``; text ``None`` is NULL.
    """

    violations: int
    unit: str = "rows"
    sample: tuple[tuple[tuple[str, str | None], ...], ...] = ()
    detail: tuple[tuple[str, str | None], ...] = ()


class DrainResult(Struct, frozen=True):
    """Rows handed to the target and rows that the target took, those of a resumed part included.

    ``delivered_by`` is the run that had written this very batch before, by the target's ledger; nothing was written
    now. ``choices`` is what was decided only now, by topic, as for a landing. ``deletes`` are keys that were handed to
    the target for deletion besides; they count in neither of the two.
    """

    rows_staged: int
    rows_written: int
    tier: Tier = "native"
    stalls: Stalls | None = None
    warnings: tuple[TaskWarning, ...] = ()
    delivery: Delivery | None = None
    delivered_by: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    deletes: int = 0


class Moved(Struct, frozen=True):
    """What became of a landing, a view and a load that were carried out as one, with no row staged.

    Args:
        landed: ``rows_staged`` is 0; every row that was read was handed to the target.
        made: of the view.
        drained: of the load.
    """

    landed: LandResult
    made: MaterialiseResult
    drained: DrainResult


class NotMoved(Exception):
    """Rows did not pass straight into their target; its cause is the fault, ``None`` if the engine only declines.

    Args:
        fault: what went wrong.
        tried: whether the commit had been tried, so that the fault is the load's own and the target may have the rows.
            Otherwise the target is as it was.
    """

    def __init__(self, fault: BaseException | None, *, tried: bool) -> None:
        super().__init__("rows did not pass straight into their target")
        self.fault, self.tried = fault, tried


class Cancelled(Exception):
    """The task was told to stop and did."""


class Control(Protocol):
    """What a running task is given: a way to report progress and to notice that it should stop."""

    attempt: int

    def progress(self, rows: int, bytes: int, batches: int) -> None:
        """Say how far the task is, in totals since its start."""

    def raise_if_cancelled(self) -> None:
        """Raise :class:`Cancelled` if the task should stop; called at least once a batch."""

    def on_cancel(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        """Register what stops a call in flight; returns a function that takes it back."""


class EngineSettings(Struct, frozen=True):
    """What an engine is opened with.

    Args:
        staging_path: absolute path of the run's own database file.
        temp_directory: absolute path for spilling.
        memory_limit: DuckDB's text, ``None`` for its own default.
        threads: DuckDB's threads, ``None`` for its own default.
        batch_bytes: target size of a record batch.
        run_id, started_at: of this run (``started_at`` ISO, UTC).
        ahead: extensions that tasks will need; an engine may load them before it is asked.
    """

    staging_path: str
    temp_directory: str
    memory_limit: str | None = None
    threads: int | None = None
    batch_bytes: int = 33_554_432
    run_id: str = ""
    started_at: str = ""
    options: Mapping[str, Value] = field(default_factory=dict)
    ahead: tuple[Setup, ...] = ()


class Host(Protocol):
    """Hands an engine the things that tasks name."""

    def connector(self, connection: str) -> Connector:
        """The connector instance of a connection of the project."""

    def strategy(self, name: str) -> object:
        """An instance of a registered strategy (:class:`~pz_core.contract.strategy.Strategy`)."""

    def check(self, kind: str) -> object:
        """An instance of a registered check (:class:`~pz_core.contract.check.Check`)."""


class Engine(Protocol):
    """Carries tasks out. All calls may come from several threads at once; a task has one call."""

    name: ClassVar[str]

    def __init__(self, settings: EngineSettings, host: Host) -> None: ...

    def land(self, task: LandTask, control: Control) -> LandResult:
        """Bring rows in. After a failure nothing of them is visible."""

    def materialise(self, task: MaterialiseTask, control: Control) -> MaterialiseResult:
        """Make a pipeline's relation."""

    def check(self, task: CheckTask, control: Control) -> CheckOutcome:
        """Ask a check's questions."""

    def drain(self, task: DrainTask, control: Control) -> DrainResult:
        """Load a relation into its target."""

    def close(self) -> None:
        """Release everything; the staging file stays and can be attached read-only."""


@runtime_checkable
class PassingEngine(Protocol):
    """An engine that can move rows without staging them; one that cannot carries out the three tasks one by one."""

    def move(self, land: LandTask, make: MaterialiseTask, drain: DrainTask, control: Control) -> Moved:
        """Carry out a landing, the one view on it and the one load of the view in a single pass.

        Raises:
            NotMoved: if it cannot be done so, or went wrong in any way. Nothing is staged.
            Cancelled: if told to stop before the commit.
        """
