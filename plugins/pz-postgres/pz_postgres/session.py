"""One write: batches are encoded by DuckDB and sent by psycopg, then a strategy's program runs, then it commits."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pz_core.contract.connector import ConnectorError, NativeCopy, Receipt, WriteSpec
from pz_core.contract.extensions import loading
from pz_core.contract.ledger import LEDGER_TABLE
from pz_core.values import Column, holds_exactly, quote_identifier, quote_literal, quote_path
from pz_postgres.catalog import PgTable
from pz_postgres.control import connect, connected, statement_error
from pz_postgres.local import LOCAL, faults
from pz_postgres.merging import OneStatement, folded, is_sure
from pz_postgres.names import TableName
from pz_postgres.pipe import Pipe
from pz_postgres.reading import told_forms
from pz_postgres.sending import Sending
from pz_postgres.settings import EXTENSION, Settings
from pz_postgres.staging import (
    ORDER,
    RAW,
    STAGED,
    Carried,
    carry,
    described,
    projected,
    proofs,
    raw_table,
    staged_view,
)

if TYPE_CHECKING:
    import duckdb
    import psycopg
    import pyarrow as pa

_COUNTED = ("INSERT", "UPDATE", "MERGE")
#: A server that loses its client during a long statement should notice; older ones have no such setting.
_NOTICE_LOSS = (
    "SELECT pg_catalog.set_config('client_connection_check_interval', '5s', true) "
    "WHERE EXISTS (SELECT FROM pg_catalog.pg_settings WHERE name = 'client_connection_check_interval')"
)
_IDENTITY = "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text"
_OUTCOME = "SELECT pg_catalog.pg_xact_status(%s::pg_catalog.text::pg_catalog.xid8)"
#: A session that is begun for the ledger alone has this one column.
_NO_COLUMN = "pz_none"


class TableSession:
    """One transaction. ``staged`` holds the batch in the types of the target, or is never made (:meth:`foresee`)."""

    dialect = "postgres"
    order = quote_identifier(ORDER)
    staged = f"pg_temp.{STAGED}"

    def __init__(
        self,
        settings: Settings,
        spec: WriteSpec,
        batch: tuple[Column, ...],
        table: PgTable | None,
        target: tuple[Column, ...] | None,
        *,
        make_schema: bool,
    ) -> None:
        self._settings, self._batch, self._table, self._target = settings, batch, table, target
        self._subject = f"{settings.name}.{spec.entity}"
        self._name = name = TableName.of(spec.entity, self._subject)
        self.target = name.quoted
        self.ledger = quote_path(name.schema, LEDGER_TABLE)
        self._rows = self._batches = self._touched = 0
        self._laid = self._locked = self._proven = self._straight = self._merged = False
        self._encoded: dict[str, str] = {}
        self._sending: Sending | None = None
        self._pipe: Pipe | None = None
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._carried: tuple[Carried, ...] | None = None
        if not (batch and batch[0].name == _NO_COLUMN):
            self._carried = self._carry(spec.schema_policy == "evolve")
        self._folder = tempfile.TemporaryDirectory(prefix="pz-postgres-", ignore_cleanup_errors=True)
        self._held: psycopg.Connection[Any] | None = None
        try:
            self._held = connect(settings)
            self._run("SET statement_timeout = 0")  # a load takes as long as it takes; locks are not waited for so long
            self._run("BEGIN ISOLATION LEVEL READ COMMITTED")
            self._run(_NOTICE_LOSS)
            if make_schema:
                self._run(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(name.schema)}")
        except BaseException:
            self._end()
            raise

    def columns(self) -> tuple[Column, ...] | None:
        """The target's columns, or ``None`` if it does not exist."""
        return self._target

    def foresee(self, program: tuple[str, ...]) -> tuple[str, ...]:
        """Take the rows straight into the target where the program only copies them and every type allows it.

        A merge becomes one statement, which :meth:`execute` runs if the table then is one for it.
        """
        program = folded(program)
        mentions = [i for i, sql in enumerate(program) if self.staged in sql]
        if len(mentions) != 1 or not self._adds(program[mentions[0]]) or self._carried is None:
            return program
        made = self._table is None or any(sql.startswith("DROP TABLE") for sql in program)
        plain = made or (self._table is not None and self._table.plain)
        written = _columns_of(program[mentions[0]])
        carried = tuple(c for c in self._carried if c.name in written)
        if not plain or len(carried) != len(written) or not all(c.straight for c in carried):
            return program
        for sql in program[: mentions[0]]:
            for _ in self.execute(sql):
                pass
        self._carried, self._straight = carried, True
        if not made:
            given = {c.name.casefold(): c.type for c in self._batch}
            # A column that the program has widened just now has the batch's type, not the one that was looked up.
            self._encoded = {
                c.name: c.type for c in self._target or () if holds_exactly(c.type, given.get(c.name.casefold(), ""))
            }
        return program[mentions[0] + 1 :]

    def pipe(self) -> NativeCopy | None:
        """The pipe that DuckDB writes PostgreSQL's binary form to; what that cannot hold trips a guard."""
        carried = self._carried
        if carried is None:
            return None
        self._lay()
        self._pipe = Pipe(Path(self._folder.name) / "rows")
        self._open_copy().take(self._pipe)
        order = None if self._straight else "row_number() OVER ()"
        projection = projected(carried, order, self._encoded, guarded=True)
        # A file aside that is moved, as DuckDB makes one of its own accord, would be no pipe.
        options = "FORMAT postgres_binary, USE_TMP_FILE false"
        return NativeCopy(str(self._pipe.path), options, "pipe", setup=(loading(EXTENSION),), projection=projection)

    def piped(self, rows: int | None) -> None:
        """Wait until the server has been sent all of it.

        Raises:
            ConnectorError: why it could not be sent; after a failed COPY only what is the transfer's own fault.
        """
        assert self._pipe is not None
        self._pipe.end()
        if rows is None:
            assert self._sending is not None
            self._sending.refuse()
            return
        self._rows, self._batches = rows, 1
        self._finish_copy()

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode one batch, and have it sent; the server may take it while the next one is encoded."""
        import pyarrow as pa

        self._lay()
        carried = self._carried
        assert carried is not None
        duck = self._duck()
        duck.register("pz_batch", pa.Table.from_batches([batch]))
        path = Path(self._folder.name) / f"batch{self._batches}"
        try:
            with faults(self._subject):
                self._refuse_unfit(duck, carried)
                order = None if self._straight else f"{self._rows} + row_number() OVER ()"
                query = f"SELECT {projected(carried, order, self._encoded)} FROM pz_batch"
                duck.execute(f"COPY ({query}) TO {quote_literal(str(path))} (FORMAT postgres_binary)")
        finally:
            duck.unregister("pz_batch")
        self._open_copy().add(path)
        self._rows += batch.num_rows
        self._batches += 1

    def execute(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Run one statement in the transaction; it has run when the call returns."""
        self._finish_copy()
        if sql.lstrip()[:6].upper() == "SELECT":
            return iter(_as_batches(self._run(sql)))
        if self.ledger in sql:
            self._run(sql)
            return iter(())
        self._lay()
        self._prove()
        if self._table is not None and not self._locked and not self._adds(sql):
            # Readers go on; other loads wait until this one has committed, and then see what it wrote.
            self._locked = True
            self._run(f"LOCK TABLE {self.target} IN SHARE ROW EXCLUSIVE MODE")
        for each in self._settled(sql):
            done = self._run(each)
            if each.lstrip().split(None, 1)[0].upper() in _COUNTED:
                self._touched += max(0, done.rowcount)
        return iter(())

    def commit(self) -> Receipt:
        """Commit; nothing of it was visible before.

        Raises:
            ConnectorError: transient where the server says that it was rolled back; where the connection was lost and
                nothing can be found out, it says so and is not to be tried again.
        """
        import psycopg

        try:
            self._finish_copy()
            row = self._run(_IDENTITY).fetchone()
            try:
                self._connection().execute("COMMIT")
            except psycopg.Error as error:
                done = self._outcome(str(row[0])) if row else None
                if done is None:
                    raise _unknown(self._subject) from error
                if not done:
                    raise statement_error(error, self._subject) from error
        finally:
            self._end()
        return Receipt(self._touched, self._batches, self._choices())

    def abort(self) -> None:
        """Roll back."""
        sending, self._sending = self._sending, None
        if self._pipe is not None:
            self._pipe.end()
        if sending is not None:
            sending.abandon()
        if self._held is not None:
            with contextlib.suppress(Exception):
                self._held.execute("ROLLBACK")
        self._end()

    def interrupt(self) -> None:
        """Stop what runs on the server; from any thread."""
        held, cursor = self._held, self._cursor
        if cursor is not None:
            cursor.interrupt()
        if held is not None:
            held.cancel_safe(timeout=5)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _carry(self, evolves: bool) -> tuple[Carried, ...]:
        """How the batch is carried; what the program will not write is laid aside all the same."""
        there = {} if self._table is None else {c.name.casefold(): c for c in self._table.columns}
        named = tuple(
            Column(there[c.name.casefold()].name if c.name.casefold() in there else c.name, c.type) for c in self._batch
        )
        kinds = {c.name: c.type for c in named}
        # What will be widened is carried as what it is then.
        known = [c for c in there.values() if not evolves or holds_exactly(described(c).type, kinds.get(c.name, ""))]
        return carry(self._batch, named, known, self._subject)

    def _lay(self) -> None:
        """Make what the rows go into, unless that is the target."""
        if self._laid or self._straight or self._carried is None:
            return
        self._laid = True
        self._run(raw_table(self._carried))
        self._run(staged_view(self._carried))

    def _refuse_unfit(self, duck: duckdb.DuckDBPyConnection, carried: tuple[Carried, ...]) -> None:
        tests = [test for c in carried for test in c.unfit]
        if not tests:
            return
        counts = ", ".join(f"count(*) FILTER (WHERE {test.condition})" for test in tests)
        found = duck.execute(f"SELECT {counts} FROM pz_batch").fetchone() or ()
        for test, count in zip(tests, found, strict=True):
            if count:
                first = duck.execute(
                    f"SELECT min(pz_row) FROM (SELECT row_number() OVER () AS pz_row, ({test.condition}) AS pz_bad "
                    "FROM pz_batch) WHERE pz_bad"
                ).fetchone()
                raise ConnectorError(
                    f"{self._subject}: column '{test.column}' {test.told}, in row {self._rows + (first or (1,))[0]}",
                    code="PZ0812",
                    hint="cast or filter the column in the pipeline, or change the target's type",
                )

    def _open_copy(self) -> Sending:
        if self._sending is None:
            names = [quote_identifier(c.name) for c in self._carried or ()]
            target = self.target if self._straight else f"pg_temp.{RAW}"
            fields = ", ".join(names if self._straight else [*names, self.order])
            statement = f"COPY {target} ({fields}) FROM STDIN (FORMAT BINARY)"
            self._sending = Sending(self._connection(), statement, self._subject)
        return self._sending

    def _finish_copy(self) -> None:
        sending = self._sending
        if sending is None:
            return
        sending.finish()
        self._sending = None
        if self._straight:
            self._touched += self._rows

    def _prove(self) -> None:
        """Before the program: what a type's input made of a text must still be that text."""
        if self._proven or self._carried is None or self._straight:
            return
        self._proven = True
        for sql, told in proofs(self._carried):
            row = self._run(sql).fetchone()
            if row and row[0]:
                raise ConnectorError(
                    f"{self._subject}: {told} ({row[0]} of them)",
                    code="PZ0812",
                    hint="cast the column in the pipeline to the form in which the target keeps it, or change its type",
                )

    def _adds(self, sql: str) -> bool:
        """Whether a statement only adds the rows of the batch, which any number of loads may do at once."""
        shape = rf"INSERT INTO {re.escape(self.target)} \((.*)\) SELECT (.*) FROM {re.escape(self.staged)}"
        found = re.fullmatch(shape, sql)
        return sql.startswith(("CREATE", "ALTER")) or (found is not None and found[1] == found[2])

    def _settled(self, sql: str) -> tuple[str, ...]:
        """What a statement is run as: a merge in one stays that only where the table is one for it."""
        if not isinstance(sql, OneStatement):
            return (sql,)
        carried = self._carried or ()
        self._merged = self._locked and is_sure(self._connection(), self._name, sql.upsert, carried, self._subject)
        return (sql,) if self._merged else sql.upsert.statements()

    def _choices(self) -> dict[str, str]:
        if self._carried is None:
            return {}
        way = "straight into the table" if self._straight else "beside the table first"
        if self._merged:
            way += ", then INSERT … ON CONFLICT"
        return {"columns": told_forms((c.name, c.how) for c in self._carried), "way": way}

    # --- the server --------------------------------------------------------------------------------------------------

    def _run(self, sql: str) -> psycopg.Cursor[Any]:
        import psycopg

        try:
            return self._connection().execute(sql.encode())
        except psycopg.Error as error:
            raise statement_error(error, self._subject) from error

    def _connection(self) -> psycopg.Connection[Any]:
        if self._held is None:
            raise ConnectorError(f"{self._subject}: the write has ended", hint="a session ends with commit or abort")
        return self._held

    def _duck(self) -> duckdb.DuckDBPyConnection:
        if self._cursor is None:
            self._cursor = LOCAL.loaded(self._subject)
        return self._cursor

    def _outcome(self, identity: str) -> bool | None:
        """Whether the transaction was committed, asked of the server on a new connection."""
        for _ in range(2):
            with contextlib.suppress(Exception), connected(self._settings) as held:
                row = held.execute(_OUTCOME, (identity,)).fetchone()
                if row is not None and row[0] in ("committed", "aborted"):
                    return bool(row[0] == "committed")
                # The server has not noticed yet that its client is gone; it is told to end.
                held.execute(
                    "SELECT pg_catalog.pg_terminate_backend(pid, 2000) FROM pg_catalog.pg_stat_activity "
                    "WHERE backend_xid::pg_catalog.text = (%s::pg_catalog.int8 %% 4294967296)::pg_catalog.text",
                    (identity,),
                )
        return None

    def _end(self) -> None:
        held, self._held = self._held, None
        cursor, self._cursor = self._cursor, None
        for thing in (held, cursor):
            if thing is not None:
                with contextlib.suppress(Exception):
                    thing.close()
        self._folder.cleanup()


def _columns_of(sql: str) -> set[str]:
    """Names that an INSERT lists."""
    listed = sql.split(") SELECT ", 1)[0].split(" (", 1)[1]
    return {part.replace('""', '"') for part in re.findall(r'"((?:[^"]|"")*)"', listed)}


def _as_batches(done: psycopg.Cursor[Any]) -> list[pa.RecordBatch]:
    import pyarrow as pa

    rows = done.fetchall()
    names = [c.name for c in done.description or ()]
    columns = [pa.array([row[i] for row in rows]) for i in range(len(names))]
    return [pa.RecordBatch.from_arrays(columns, names)] if rows else []


def _unknown(subject: str) -> ConnectorError:
    return ConnectorError(
        f"{subject}: the connection was lost when the load was being committed, and whether it was cannot be found out",
        hint="look into the target before you run pz retry: it holds either all rows of the load or none",
    )
