"""The contract of a connector.

All that crosses it is data: frozen records, text, Arrow. So a connector can run in a process of its own.
Connectors never retry: they raise :class:`ConnectorError` and say whether it may pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from pz_core.contract.capabilities import Capabilities
from pz_core.contract.capture import CaptureSpec
from pz_core.contract.options import OptionSet
from pz_core.contract.secrets import Secret
from pz_core.errors import PzError, Where
from pz_core.values import Column, Value
from pz_core.values.discreet import Discreet

if TYPE_CHECKING:
    import pyarrow as pa

ReadShape = Literal["full", "feed"]
AbortSemantics = Literal["discards_all", "best_effort", "none"]


class ConnectorError(PzError):
    """A connector could not do what was asked.

    Args:
        message: what went wrong, without a secret and without a value of the data.
        transient: whether the same call may succeed later; only such faults are retried in a run.
        retry_after: seconds after which the place asked to be called again.
        code: a more exact code than PZ0501, such as PZ0353 or PZ0365.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        retry_after: float | None = None,
        code: str = "PZ0501",
        where: Where | None = None,
        hint: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        super().__init__(code, message, where=where, hint=hint, cause=cause)
        self.transient = transient
        self.retry_after = retry_after

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "transient": self.transient, "retry_after": self.retry_after}


class ConnectionConfig(Discreet, frozen=True):
    """A connection as the connector gets it.

    Args:
        name: the key in ``connections.yml``.
        connector: the connector's name.
        options: the connector's own options; secret ones are :class:`Secret`.
        base_dir: absolute path of the project, against which relative paths resolve.
    """

    kept: ClassVar[frozenset[str]] = frozenset({"options"})

    name: str
    connector: str
    options: Mapping[str, Value | Secret]
    base_dir: str = "."


class CursorBounds(Struct, frozen=True):
    """Bounds of an ordered read. Values are canonical text of ``type``; ``None`` is no bound.

    ``cursor`` may be present with both bounds absent: a first run, a full refresh or a plan's probe. Rows whose cursor
    is NULL pass where there is no floor, or where ``with_nulls`` says that they belong to the first slice.
    """

    cursor: str
    type: str | None = None
    lower: str | None = None
    lower_inclusive: bool = False
    upper: str | None = None
    upper_inclusive: bool = True
    with_nulls: bool = False


class ReadHints(Struct, frozen=True):
    """What the one reader of a dataset needs. Ignoring hints is always correct.

    Planned hints come from a query's text; an engine passes them through :func:`~pz_core.contract.hints.fitting_hints`
    before a connector reads, so that a connector meets existing columns only.

    Args:
        columns: names to keep, ``None`` for all.
        predicate: a filter in DuckDB's SQL over the dataset's own columns.
        needs: column of the predicate -> what it is compared with, words of :mod:`pz_core.contract.hints`.
    """

    columns: tuple[str, ...] | None = None
    predicate: str | None = None
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class ReadSpec(Struct, frozen=True):
    """One read of an entity.

    Args:
        entity: its name in the place's own spelling.
        options: the connector's read options.
        columns: the contract, name -> type word of ``columns:``; ``None`` without one.
        bounds: of an incremental read.
        token: opaque token stored by an earlier run of a feed or a change capture.
        capture: set where changes are to be read (``sync: {mode: cdc}``), see :mod:`pz_core.contract.capture`.
    """

    entity: str
    options: Mapping[str, Value] = field(default_factory=dict)
    columns: Mapping[str, str] | None = None
    bounds: CursorBounds | None = None
    token: str | None = None
    hints: ReadHints = ReadHints()
    capture: CaptureSpec | None = None


class Setup(Discreet, frozen=True):
    """A statement to run once a run on the engine's DuckDB before a native edge (LOAD, ATTACH, CREATE SECRET).

    One of kind ``extension`` that is known while the run is planned may be run as soon as the run begins.

    Args:
        sql: the statement; never logged.
        kind: what it is, for messages: ``attach``, ``extension``, ``secret``, ``setting``.
    """

    kept: ClassVar[frozenset[str]] = frozenset({"sql"})

    sql: str
    kind: str = "setting"


class NativeScan(Discreet, frozen=True):
    """A source that DuckDB reads by itself.

    Args:
        query: a complete SELECT in DuckDB's SQL that yields the rows.
        mechanism: how, for the plan: ``read_csv``, ``attach``.
        setup: statements to run before.
        schema_inferred: whether the types were guessed from the data.
        rejects: a SELECT of one row ``(count, detail)`` run after landing; a count above zero fails the node (PZ0812).
        guarded: whether the query stops where the data belies what a look at a part of it promised; the engine then
            asks :meth:`SettlingSource.settle_scan` and lands again. Only from :meth:`ResolvingSource.resolve_scan`.
        rule: of a planned scan: how what depends on types that nobody declared will be decided, for the plan.
        choice: of the scan that is run: what was decided by that rule, for the run's results; no value of the data.
    """

    kept: ClassVar[frozenset[str]] = frozenset({"query"})

    query: str
    mechanism: str = "scan"
    setup: tuple[Setup, ...] = ()
    schema_inferred: bool = False
    rejects: str | None = None
    guarded: bool = False
    rule: str | None = None
    choice: str | None = None


class Partition(Struct, frozen=True):
    """A part of a read, as data. ``id`` is stable across runs where the connector says so."""

    ordinal: int = 0
    id: str | None = None
    payload: Mapping[str, Value] = field(default_factory=dict)


class Move(Struct, frozen=True):
    """Rename ``source`` to ``target``, replacing it, after a native copy has succeeded."""

    source: str
    target: str


class NativeCopy(Struct, frozen=True):
    """A file that DuckDB writes by itself.

    The engine makes the parent folders, runs ``COPY (projection over the relation) TO path (options)``, removes
    ``path`` if that fails, and only then carries out ``moves``.

    Args:
        path: where DuckDB writes: a temporary name beside the target where ``moves`` are given.
        options: text of the COPY options, such as ``FORMAT parquet``.
        mechanism: how, for the plan.
        setup: statements to run before.
        moves: temporary names to final ones, on the local file system.
        projection: SELECT list over the relation.
        removes: files to delete once the moves are done.
    """

    path: str
    options: str
    mechanism: str
    setup: tuple[Setup, ...] = ()
    moves: tuple[Move, ...] = ()
    projection: str = "*"
    removes: tuple[str, ...] = ()


class NativeStream(Struct, frozen=True):
    """Rows that DuckDB encodes, and that a write session takes from a pipe while it does: see :class:`PipedSession`.

    For places that DuckDB can write the form of, but should not write to by itself.

    Args:
        mechanism: how, for the plan.
        setup: statements that the session's pipe will need, as far as they are known before.
    """

    mechanism: str
    setup: tuple[Setup, ...] = ()


class NativeTarget(Struct, frozen=True):
    """A table that DuckDB can write by itself once ``setup`` has run; a strategy's program runs on it there.

    Args:
        catalog, schema, table: unquoted names in the engine's DuckDB.
        mechanism: how, for the plan: ``attach``.
        dialect: name of the SQL dialect that the program must be in.
        ledger: unquoted name of the ledger's table in ``catalog`` and ``schema`` where the target can keep one
            (:data:`~pz_core.contract.ledger.LEDGER_TABLE`), with the ability ``ledger``.
    """

    catalog: str
    schema: str
    table: str
    mechanism: str
    setup: tuple[Setup, ...] = ()
    dialect: str = "duckdb"
    ledger: str | None = None


class WriteSpec(Struct, frozen=True):
    """One write of an entity.

    Args:
        entity: its name in the place's own spelling.
        options: the connector's write options.
        strategy: registered name of the strategy.
        load_mode: the way that the planner chose among what strategy and connector share.
        keys: merge keys.
        schema_policy: one of ``fail_on_change``, ``additive``, ``evolve``, ``ignore``.
        run_id: id of this run; names unique files.
        node_id: id of the node.
        attempt: 1 for the first attempt of the node in this run.
        columns: of the rows to write, known when the write is carried out; ``None`` while planning.
    """

    entity: str
    options: Mapping[str, Value] = field(default_factory=dict)
    strategy: str = "append"
    load_mode: str = "add"
    keys: tuple[str, ...] = ()
    schema_policy: str = "fail_on_change"
    on_delete: str | None = None
    run_id: str = ""
    node_id: str = ""
    attempt: int = 1
    columns: tuple[Column, ...] | None = None


class Receipt(Struct, frozen=True):
    """What a committed session wrote; ``choices`` is how, by topic, for the run's results."""

    rows: int
    batches: int = 0
    choices: Mapping[str, str] = field(default_factory=dict)


class CheckReport(Struct, frozen=True):
    """Answer of :meth:`Connector.check`: whether the place can be reached, and what to tell the user."""

    ok: bool
    message: str = ""
    hint: str | None = None


class WriteSession(Protocol):
    """A write in batches: any number of :meth:`write`, then exactly one of :meth:`commit` and :meth:`abort`."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take one batch; it is valid only until the call returns."""

    def commit(self) -> Receipt:
        """Make all rows visible at once. Never followed by :meth:`abort`, even when it fails."""

    def abort(self) -> None:
        """Leave the target as it was and remove what was written aside."""


@runtime_checkable
class SqlWriteSession(Protocol):
    """A session whose target is a table: rows are staged beside it, then a strategy's program runs, then commit.

    ``staged`` and ``target`` are quoted names for use in :meth:`execute`; ``order`` is an expression over ``staged``
    that gives the order in which rows were written.
    """

    staged: str
    target: str
    order: str
    dialect: str

    def write(self, batch: pa.RecordBatch) -> None:
        """Stage one batch beside the target."""

    def columns(self) -> tuple[Column, ...] | None:
        """The target's columns, or ``None`` if it does not exist."""

    def execute(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Run one statement in the session's transaction."""

    def commit(self) -> Receipt:
        """Commit the transaction."""

    def abort(self) -> None:
        """Roll back."""


@runtime_checkable
class ForeseeingSession(Protocol):
    """A SQL session that wants to know its program before the rows come, so that it may do it in a way of its own.

    It may take the rows straight in where the program only copies them
    (:func:`~pz_core.contract.strategy.plain_insert`), or put one statement of its own in the place of those of an
    :class:`~pz_core.contract.strategy.Upsert`: only where the target is then sure to hold the same.
    """

    def foresee(self, program: tuple[str, ...]) -> tuple[str, ...]:
        """The statements that will follow the rows.

        Args:
            program: in the session's dialect. Those of an upsert can be told by their type where the dialect reads
                them as DuckDB does (:class:`~pz_core.contract.strategy.UpsertStatement`).

        Returns:
            Those that are left for :meth:`SqlWriteSession.execute`; the session sees to the others.
        """


@runtime_checkable
class PipedSession(Protocol):
    """A session that can take its rows in a form that DuckDB writes; begun for a :class:`NativeStream`.

    The engine asks for the pipe in place of the first batch, and runs its COPY once. A guard in the projection
    (:func:`~pz_core.contract.refusals.trip`) may stop it at a value that the form cannot hold: the session is then
    aborted, and another one is given the rows in batches, which can tell where the value stands.
    """

    def pipe(self) -> NativeCopy | None:
        """The pipe that DuckDB writes to, with a reader at its other end; ``None`` to be given batches instead."""

    def piped(self, rows: int | None) -> None:
        """DuckDB's COPY has ended: wait until everything has been taken.

        Args:
            rows: so many were written; ``None`` if the COPY failed.

        Raises:
            ConnectorError: why the rows could not be taken.
        """


class Source(Protocol):
    """An open connection for reading. One is opened for every attempt of a node."""

    def natural_shape(self, spec: ReadSpec) -> ReadShape:
        """``full``, or ``feed`` where the place owns a continuation token."""

    def schema(self, spec: ReadSpec) -> tuple[Column, ...]:
        """Columns that a read yields.

        Raises:
            ConnectorError: if they cannot be known.
        """

    def native_scan(self, spec: ReadSpec) -> NativeScan | None:
        """How DuckDB reads the entity by itself, or ``None``. Planning calls it offline: no effect, no I/O."""

    def partitions(self, spec: ReadSpec) -> Sequence[Partition]:
        """Parts of a universal read; one without a payload is the whole."""

    def read(self, spec: ReadSpec, partition: Partition, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Record batches of one part, each of at most ``batch_rows`` rows, all of one schema.

        At least one batch is yielded, empty if there are no rows, so that the schema is known.
        """

    def close(self) -> None:
        """Release everything."""


@runtime_checkable
class ResolvingSource(Protocol):
    """A source whose native scan can only be written exactly after a look at the place.

    A plan is made offline, so :meth:`Source.native_scan` may not look; when an engine lands the rows it asks
    :meth:`resolve_scan` instead, through :func:`resolved_scan`.
    """

    def resolve_scan(self, spec: ReadSpec) -> NativeScan | None:
        """The scan to run now: headers read, types proven, files listed.

        Raises:
            ConnectorError: if the entity cannot be read; PZ0812 names the column and row of a value that does not fit
                its type.
        """


@runtime_checkable
class SettlingSource(Protocol):
    """A resolving source whose scan may be ``guarded``: quick to write, and proven only while it runs."""

    def settle_scan(self, spec: ReadSpec) -> NativeScan | None:
        """The scan to run after a guarded one has failed: every type proven over all rows, never guarded itself.

        Args:
            spec: the same read, without hints.

        Raises:
            ConnectorError: what made the guarded scan fail, if it is a fault of the data.
        """


def resolved_scan(source: Source, spec: ReadSpec) -> NativeScan | None:
    """What an engine lands natively: the source's resolved scan where it has one, else the scan that was planned."""
    if isinstance(source, ResolvingSource):
        return source.resolve_scan(spec)
    return source.native_scan(spec)


class Sink(Protocol):
    """An open connection for writing. One is opened for every attempt of a node."""

    def native_write(self, spec: WriteSpec) -> NativeCopy | NativeTarget | NativeStream | None:
        """How DuckDB writes the entity by itself, or ``None``. Planning calls it offline: no effect, no I/O."""

    def begin(self, spec: WriteSpec, columns: tuple[Column, ...]) -> WriteSession | SqlWriteSession:
        """Begin a universal write of rows with these columns."""

    def abort_semantics(self) -> AbortSemantics:
        """What an abort leaves behind."""

    def close(self) -> None:
        """Release everything."""


@runtime_checkable
class Interruptible(Protocol):
    """A source or a sink whose calls can be stopped from outside, where they wait for something that may never come.

    Without it a task that was told to stop waits for the call that is under way.
    """

    def interrupt(self) -> None:
        """From another thread: have calls under way end soon, with any error; returns at once.

        A commit that has begun is not stopped. :meth:`abort` and :meth:`close` still follow.
        """


@runtime_checkable
class DeliveringSink(Protocol):
    """A sink whose native copies are made on this machine and then brought to their place by the sink itself.

    For places without a rename, such as object stores: what a failed COPY straight to one leaves there can be half of
    the rows under the final name. The copy's ``path`` is a file of this machine, ``moves`` and ``removes`` are empty;
    the engine removes the file at the end, however it went.
    """

    def deliver(self, spec: WriteSpec, copy: NativeCopy) -> None:
        """Bring the finished file to its place, whole or not at all, and remove what it supersedes there.

        Raises:
            ConnectorError: if it could not be done, or was stopped.
        """

    def stop(self) -> None:
        """From another thread: end a :meth:`deliver` soon, leaving the place as it was."""


class Connector(Protocol):
    """A kind of place. The class is what a registration's target names.

    Class attributes are the declaration; an instance is one connection of a project. It may have a static method
    ``imports``, which takes a :class:`ReadSpec` or a :class:`WriteSpec` and gives names of modules that this read or
    write needs and no plan does: they are imported while a run begins.
    """

    name: ClassVar[str]
    connection_options: ClassVar[OptionSet]
    read_options: ClassVar[OptionSet]
    write_options: ClassVar[OptionSet]
    capabilities: ClassVar[Capabilities]

    def __init__(self, connection: ConnectionConfig) -> None: ...

    def validate(self) -> Sequence[PzError]:
        """Faults between options of the connection, found offline."""

    def validate_read(self, spec: ReadSpec) -> Sequence[PzError]:
        """Faults of one read's options, found offline (PZ0361, PZ0362, PZ0365, PZ0353)."""

    def validate_write(self, spec: WriteSpec) -> Sequence[PzError]:
        """Faults of one write's options, found offline."""

    def check(self) -> CheckReport:
        """Whether the place can be reached with these credentials."""

    def open_source(self) -> Source:
        """Open for reading."""

    def open_sink(self) -> Sink:
        """Open for writing. A connector without load modes has it too, and raises: nothing asks it for a sink."""


@runtime_checkable
class PlacingConnector(Protocol):
    """A connector that can say offline where a write ends up, so that two outputs of one place are refused (PZ0206).

    Two connections may well lead to one place, and a place may know a thing by more than one name.
    """

    def write_place(self, spec: WriteSpec) -> str:
        """The place of a write, spelled one way for every name that it has: a path, or a server and a table.

        It is compared and never shown. Planning calls it after :meth:`Connector.validate_write` found no fault.
        """
