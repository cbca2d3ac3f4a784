"""Writing a table: by the engine's DuckDB, or in record batches through one of our own; one transaction either way."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pz_core.contract.connector import AbortSemantics, ConnectorError, NativeTarget, Receipt, WriteSpec
from pz_core.contract.remote import (
    STATEMENT,
    RemoteTable,
    Staging,
    StagingRequest,
    commit_unknown,
    count_unfit,
    first_unfit,
    refuse_changed,
    refuse_unfit,
)
from pz_core.values import Column, quote_identifier, quote_literal, quote_path
from pz_postgres.catalog import PgTable, describe_table
from pz_postgres.control import connected
from pz_postgres.local import LOCAL, bulk_error
from pz_postgres.names import TableName
from pz_postgres.settings import Settings
from pz_postgres.staging import (
    COUNT,
    ORDER,
    RAW,
    STAGED,
    carry,
    counted,
    described,
    proofs,
    raw_table,
    selected,
    staged_view,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_LEDGER = "_pz_ledger"
_STAGED_NAME = f"pg_temp.{STAGED}"
_ORDER_NAME = quote_identifier(ORDER)
#: Of the transaction: its own number, which makes it one that can be asked for later, and its process.
_IDENTITY = "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text || ':' || pg_catalog.pg_backend_pid() AS identity"
#: A server that loses its client during a long statement should notice; older ones have no such setting.
_NOTICE_LOSS = (
    "DO $pz$ BEGIN PERFORM pg_catalog.set_config('client_connection_check_interval', '5s', true) "
    "FROM pg_catalog.pg_settings WHERE name = 'client_connection_check_interval'; "
    "EXCEPTION WHEN OTHERS THEN NULL; END $pz$"
)


class TableSink:
    """Tables of one database, open for one attempt."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, tuple[PgTable | None, bool]] = {}
        self._sessions: list[TableSession] = []

    # --- natively --------------------------------------------------------------------------------------------------

    def native_write(self, spec: WriteSpec) -> NativeTarget:
        """The table in the attached database, beside which the batch is laid."""
        name = self._name(spec)
        alias = self._settings.alias(f"write:{spec.entity}:{spec.node_id}:{spec.attempt}")
        return NativeTarget(
            alias,
            name.schema,
            name.table,
            "the postgres extension, by binary copy",
            self._settings.setup(alias, write=True),
            dialect="postgres",
            ledger=_LEDGER,
            remote=remote_table(alias, name),
        )

    def describe(self, spec: WriteSpec) -> tuple[Column, ...] | None:
        """Columns of the target, ``None`` if it does not exist."""
        table, _ = self._look(spec)
        return None if table is None else tuple(described(c) for c in table.columns if not c.generated)

    def staging(self, request: StagingRequest) -> Staging:
        """How the batch gets beside the target, or straight into it."""
        table, schema_is_there = self._look(request.spec)
        subject, name = self._subject(request.spec), self._name(request.spec)
        there = table.columns if table is not None and not request.anew else ()
        carried = carry(request.batch, request.columns, there, subject)
        unfit = tuple(test for c in carried for test in c.unfit)
        first = [_NOTICE_LOSS]
        if table is not None and request.alone:
            first.append(_lock(name.quoted))
        if not schema_is_there:
            first.append(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(name.schema)}")
        plain = table is None or request.anew or table.plain
        straight = request.straight and plain and all(c.straight for c in carried)
        choices = {"columns": _told(carried), "way": "into the table" if straight else "beside the table"}
        alias = self.native_write(request.spec).catalog
        fields = ", ".join(quote_identifier(c.name) for c in carried)
        if straight:
            target = quote_path(alias, name.schema, name.table)
            move = f"INSERT INTO {target} ({fields}) {selected(carried, request.relation, None)}"
            return Staging(unfit, tuple(first), (), move, straight=True, choices=choices)
        raw = quote_path(alias, "pg_temp", RAW)
        move = f"INSERT INTO {raw} ({fields}, {_ORDER_NAME}) {selected(carried, request.relation, 'rowid')}"
        return Staging(
            unfit, tuple(first), (raw_table(carried), staged_view(carried)), move, (), proofs(carried), choices=choices
        )

    def counted(self, sql: str) -> str:
        """A statement that also adds up the rows that it touched."""
        return counted(sql)

    def count(self) -> str:
        """The sum of those rows."""
        return COUNT

    def outcome(self, identity: str) -> bool | None:
        """Whether the transaction was committed, asked of the server on a new connection."""
        number = identity.partition(":")[0]
        sql = "SELECT pg_catalog.pg_xact_status(%s::pg_catalog.text::pg_catalog.xid8)"
        for _ in range(2):
            try:
                with connected(self._settings) as held:
                    row = held.execute(sql, (number,)).fetchone()
            except Exception:  # noqa: BLE001 - whatever it is, the answer is not known
                continue
            status = None if row is None else row[0]
            if status in ("committed", "aborted"):
                return bool(status == "committed")
            self.cancel(identity)  # the server has not noticed yet that its client is gone
        return None

    def cancel(self, identity: str) -> None:
        """Stop the transaction's process; never raises."""
        pid = identity.partition(":")[2]
        with contextlib.suppress(Exception), connected(self._settings) as held:
            held.execute("SELECT pg_catalog.pg_cancel_backend(%s::pg_catalog.int4)", (pid,))

    def fault(self, error: BaseException, spec: WriteSpec) -> ConnectorError:
        """What DuckDB raised, in words without a value."""
        return bulk_error(error, self._subject(spec)) if isinstance(error, Exception) else ConnectorError(str(error))

    # --- in batches --------------------------------------------------------------------------------------------------

    def begin(self, spec: WriteSpec, columns: tuple[Column, ...]) -> TableSession:
        """Begin a write in one transaction."""
        made = TableSession(self, self._settings, spec, columns)
        self._sessions.append(made)
        return made

    def abort_semantics(self) -> AbortSemantics:
        """An abort leaves no trace."""
        return "discards_all"

    def interrupt(self) -> None:
        """Stop what the sessions wait for."""
        for session in tuple(self._sessions):
            session.interrupt()

    def close(self) -> None:
        """Nothing is held between sessions."""

    # --- what is there -----------------------------------------------------------------------------------------------

    def _name(self, spec: WriteSpec) -> TableName:
        return TableName.of(spec.entity, self._subject(spec))

    def _subject(self, spec: WriteSpec) -> str:
        return f"{self._settings.name}.{spec.entity}"

    def look(self, spec: WriteSpec) -> PgTable | None:
        """The target as the catalog has it."""
        return self._look(spec)[0]

    def _look(self, spec: WriteSpec) -> tuple[PgTable | None, bool]:
        if spec.entity not in self._known:
            name = self._name(spec)
            with connected(self._settings) as held:
                table = describe_table(held, name, self._subject(spec))
                schema = table is not None or bool(
                    held.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s", (name.schema,)).fetchone()
                    is not None
                )
            self._known[spec.entity] = (table, schema)
        return self._known[spec.entity]


def remote_table(alias: str, name: TableName) -> RemoteTable:
    """How a load talks to the server through the database attached as ``alias``."""
    quoted = quote_literal(alias)
    return RemoteTable(
        target=name.quoted,
        staged=_STAGED_NAME,
        order=_ORDER_NAME,
        execute=f"CALL postgres_execute({quoted}, {STATEMENT})",
        query=f"SELECT * FROM postgres_query({quoted}, {STATEMENT})",
        identity=_IDENTITY,
        detach=f"DETACH {quote_identifier(alias)}",
        ledger=quote_path(name.schema, _LEDGER),
    )


def _lock(target: str) -> str:
    """Readers go on; other loads wait until this one has committed, and then see what it wrote."""
    return f"LOCK TABLE {target} IN SHARE ROW EXCLUSIVE MODE"


def _told(carried) -> str:  # type: ignore[no-untyped-def]
    """Which columns do not travel in binary form."""
    others = [f"{c.name} as {c.how}" for c in carried if c.how != "binary"]
    return f"binary, but {', '.join(others)}" if others else "binary"


class TableSession:
    """One transaction in a DuckDB of our own: rows go beside the target, then a program runs, then it commits."""

    dialect = "postgres"
    order = _ORDER_NAME
    staged = _STAGED_NAME

    def __init__(self, sink: TableSink, settings: Settings, spec: WriteSpec, columns: tuple[Column, ...]) -> None:
        self._sink, self._spec, self._batch = sink, spec, columns
        self._subject = f"{settings.name}.{spec.entity}"
        name = TableName.of(spec.entity, self._subject)
        self._alias = LOCAL.unique(settings.alias("session"))
        self._remote = remote_table(self._alias, name)
        self.target, self.ledger = self._remote.target, str(self._remote.ledger)
        self._rows = self._batches = 0
        self._identity: str | None = None
        self._laid = self._locked = self._proven = False
        self._lock = threading.Lock()
        self._there = sink.look(spec)
        self._columns = sink.describe(spec)
        self._carried = None if columns and columns[0].name == "pz_none" else self._carry()
        self._database: duckdb.DuckDBPyConnection | None = LOCAL.open(
            settings.setup(self._alias, write=True), self._subject
        )
        try:
            self._duck("BEGIN TRANSACTION")
            staging = sink.staging(StagingRequest(spec, (), (), "", alone=False))
            for sql in staging.first:
                self._remotely(sql)
            row = self._duck(self._remote.querying(self._remote.identity)).fetchone()
            self._identity = None if row is None else str(row[0])
        except BaseException:
            self.abort()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Lay one batch beside the target; it is copied before the call returns."""
        import pyarrow as pa

        self._lay()
        carried = self._carried
        assert carried is not None
        held = self._held()
        held.register("pz_batch", pa.Table.from_batches([batch]))
        try:
            tests = [test for c in carried for test in c.unfit]
            if tests:
                counts = self._duck(count_unfit(tests, "pz_batch")).fetchone() or ()
                for test, count in zip(tests, counts, strict=True):
                    if count:
                        row = self._duck(first_unfit(test, "pz_batch")).fetchone() or (1,)
                        refuse_unfit(test, int(count), self._rows + int(row[0]), self._subject)
            fields = ", ".join(quote_identifier(c.name) for c in carried)
            raw = quote_path(self._alias, "pg_temp", RAW)
            order = f"{self._rows} + row_number() OVER ()"
            self._duck(f"INSERT INTO {raw} ({fields}, {_ORDER_NAME}) {selected(carried, 'pz_batch', order)}")
        finally:
            held.unregister("pz_batch")
        self._rows += batch.num_rows
        self._batches += 1

    def columns(self) -> tuple[Column, ...] | None:
        """The target's columns, or ``None`` if it does not exist."""
        return self._columns

    def execute(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Run one statement in the transaction; it has run when the call returns."""
        if sql.lstrip()[:6].upper() == "SELECT":
            return iter(self._duck(self._remote.querying(sql)).to_arrow_table().to_batches())
        self._lay()
        if self.ledger not in sql:
            self._prove()
            if self._there is not None and not self._locked and not self._adds(sql):
                self._locked = True
                self._remotely(_lock(self.target))
        self._remotely(counted(sql, self.ledger))
        return iter(())

    def commit(self) -> Receipt:
        """Commit; nothing of it was visible before.

        Raises:
            ConnectorError: transient where the server says that it was rolled back; where the connection was lost and
                nothing can be found out, it says so.
        """
        import duckdb

        row = self._duck(self._remote.querying(COUNT)).fetchone() if self._carried is not None else None
        try:
            self._held().execute("COMMIT")
        except duckdb.Error as error:
            done = None if self._identity is None else self._sink.outcome(self._identity)
            if done is None:
                raise commit_unknown(self._subject) from error
            if not done:
                raise bulk_error(error, self._subject) from error
        finally:
            self._end()
        return Receipt(int(row[0]) if row else 0, self._batches)

    def abort(self) -> None:
        """Roll back."""
        if self._database is not None:
            with contextlib.suppress(Exception):
                self._database.execute("ROLLBACK")
        self._end()

    def interrupt(self) -> None:
        """Stop what runs, here and on the server."""
        with self._lock:
            database = self._database
        if database is not None:
            database.interrupt()
            if self._identity is not None:
                self._sink.cancel(self._identity)

    def _carry(self):  # type: ignore[no-untyped-def]
        """How the batch is carried into what is there; what the program will not write is laid aside all the same."""
        there = {} if self._there is None else {c.name.casefold(): c for c in self._there.columns}
        named = tuple(
            Column(there[c.name.casefold()].name if c.name.casefold() in there else c.name, c.type) for c in self._batch
        )
        anew = self._spec.schema_policy == "evolve"
        known = () if self._there is None else tuple(
            c
            for c in self._there.columns
            if not anew or any(n.name == c.name and n.type == described(c).type for n in named)
        )
        return carry(self._batch, named, known, self._subject)

    def _adds(self, sql: str) -> bool:
        """Whether a statement only adds the rows of the batch, which any number of loads may do at once."""
        shape = rf"INSERT INTO {re.escape(self.target)} \([^()]*\) SELECT [^()]* FROM {re.escape(self.staged)}"
        return re.fullmatch(shape, sql) is not None or sql.startswith("CREATE")

    def _prove(self) -> None:
        """Before the program: what a type's input made of a text must still be that text."""
        if self._proven or self._carried is None:
            return
        self._proven = True
        for sql, told in proofs(self._carried):
            row = self._duck(self._remote.querying(sql)).fetchone()
            if row and row[0]:
                refuse_changed(told, int(row[0]), self._subject)

    def _lay(self) -> None:
        if self._laid or self._carried is None:
            return
        self._laid = True
        self._remotely(raw_table(self._carried))
        self._remotely(staged_view(self._carried))

    def _remotely(self, sql: str) -> None:
        self._duck(self._remote.executing(sql))

    def _duck(self, sql: str) -> duckdb.DuckDBPyConnection:
        import duckdb

        try:
            return self._held().execute(sql)
        except duckdb.Error as error:
            raise bulk_error(error, self._subject) from error

    def _held(self) -> duckdb.DuckDBPyConnection:
        if self._database is None:
            raise ConnectorError(f"{self._subject}: the write has ended", hint="a session ends with commit or abort")
        return self._database

    def _end(self) -> None:
        with self._lock:
            database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(Exception):
                database.execute(self._remote.detach)
            database.close()


