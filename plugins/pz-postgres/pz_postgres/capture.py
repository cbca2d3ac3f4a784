"""Reading the changes of a table: all rows as of one moment first, then what the server's log has since.

Values stand in the log as text. They are given back to the server, which makes them its own types again, and are then
read as any other row is (:mod:`pz_postgres.reading`): so a value that was captured and one that was read are the same.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pz_core.contract.capture import CHANGED_AT, DELETE, ENVELOPE, OP, ORDER, POSITION, SNAPSHOT
from pz_core.contract.connector import ConnectorError, ReadSpec
from pz_core.contract.resuming import TokenRefused
from pz_core.values import quote_identifier, quote_literal
from pz_postgres.capture_position import Position, position_fault, shape_fault
from pz_postgres.capture_slot import (
    CapturedTable,
    CaptureNames,
    captured_table,
    create_slot,
    drop_slot,
    ensure_publication,
    publication_fault,
    publication_identity,
    refused,
    slot_state,
)
from pz_postgres.capture_values import relation
from pz_postgres.capture_wire import Change, Decoder, NotCaptured, Spool, position_of, position_text
from pz_postgres.catalog import PgColumn, PgTable, describe_table
from pz_postgres.control import ask, connect, statement_error
from pz_postgres.reading import Rule, rules_of, scan
from pz_postgres.settings import Settings

if TYPE_CHECKING:
    import duckdb
    import psycopg
    import pyarrow as pa

#: Changes that go to the server in one statement, and about how many bytes of them.
_ROWS, _BYTES = 2_000, 1 << 20
#: Messages fetched at once.
_MESSAGES = 2_000
#: How long commits are waited for that the server has not yet written to its disk, in seconds.
_FLUSH_WAIT, _FLUSH_PAUSE = 2.0, 0.02
#: The order of rows of a first read: after all deletes that come with it.
_AFTER_ALL = 1 << 62
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_FLUSHED = "SELECT pg_catalog.pg_current_wal_flush_lsn()::text, pg_catalog.pg_current_wal_insert_lsn()::text"
_PEEK = (
    "SELECT data FROM pg_catalog.pg_logical_slot_peek_binary_changes(%s::pg_catalog.name, %s::pg_catalog.pg_lsn, NULL, "
    "'proto_version', '1', 'publication_names', %s)"
)


class CapturedRead:
    """One read of a captured table.

    Args:
        settings: of the connection.
        spec: of the read; its token is where it goes on.
        alias: unquoted name under which the database is attached to the cursors.
        cursor: opens a cursor of DuckDB on which it is.
        release: takes it back.
    """

    def __init__(
        self,
        settings: Settings,
        spec: ReadSpec,
        alias: str,
        cursor: Callable[[str], duckdb.DuckDBPyConnection],
        release: Callable[[duckdb.DuckDBPyConnection], None],
    ) -> None:
        self._settings, self._spec, self._alias = settings, spec, alias
        self._cursor, self._release = cursor, release
        self._names = CaptureNames.of(settings, spec)
        self._connections: list[psycopg.Connection[Any]] = []
        self.keys: tuple[str, ...] = ()
        self.token: str | None = None

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The changes since the token, or all rows.

        Raises:
            ConnectorError: PZ0338 for what must be changed at the place first, or what the server met.
            TokenRefused: PZ0537 if what lies after the token is not there any more.
        """
        held = self._keep(connect(self._settings))
        self._run(held, "SET statement_timeout = 0")  # a long log takes long to read
        table = captured_table(held, self._names)
        if self._spec.token is None:
            ensure_publication(held, self._names, table)
            yield from self._all(held, table, rows)
        else:
            yield from self._changes(held, table, Position.of(self._spec.token, self._names.subject), rows)

    def interrupt(self) -> None:
        """Stop what runs on the server; from any thread."""
        for held in tuple(self._connections):
            with contextlib.suppress(Exception):
                held.cancel_safe(timeout=5)

    def close(self) -> None:
        """Release everything; a temporary slot goes with its connection."""
        for held in self._connections:
            with contextlib.suppress(Exception):
                held.close()

    # --- all rows ----------------------------------------------------------------------------------------------------

    def _all(self, held: psycopg.Connection[Any], table: CapturedTable, rows: int) -> Iterator[pa.RecordBatch]:
        """All rows as of the moment at which the changes of the next read begin.

        A slot that is there stays: until the new place is stored, the old one may still be read on from.
        """
        state = slot_state(held, self._names)
        if state is not None and state.unfit is not None:
            raise refused(self._names, state.unfit, "choose another name with slot: under sync:, or drop that slot")
        if state is not None and state.lost:
            drop_slot(held, self._names)
            state = None
        walsender, lsn, snapshot = create_slot(self._settings, self._names, temporary=state is not None)
        self._keep(walsender)
        found = self._described(held)
        rules, columns = self._rules(found, table)
        select = scan(rules, self._names.table.quoted, (), self._alias)
        head = (
            f"{quote_literal(SNAPSHOT)} AS {OP}, CAST({_AFTER_ALL} AS BIGINT) AS {ORDER}, "
            f"{quote_literal(lsn)} AS {POSITION}, CAST(NULL AS TIMESTAMPTZ) AS {CHANGED_AT}"
        )
        cursor = self._cursor(self._names.subject)
        try:
            self._adopt(cursor, snapshot)
            if state is not None and state.confirmed is not None:
                yield from self._gone(held, cursor, table, rules, columns, (state.confirmed, lsn), rows)
            yield from self._stream(cursor, f"SELECT {head}, pz_all.* FROM ({select}) AS pz_all", rows)
        finally:
            self._release(cursor)
        self._ends_at(held, lsn, table, found)

    def _gone(
        self,
        held: psycopg.Connection[Any],
        cursor: duckdb.DuckDBPyConnection,
        table: CapturedTable,
        rules: Sequence[Rule],
        columns: Sequence[PgColumn],
        between: tuple[str, str],
        rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Keys that were deleted since the slot was last advanced: an earlier run may have delivered their rows.

        What the log no longer tells is left out: all rows follow, and a table that was truncated needs an empty target.
        """
        import psycopg

        after, upto = between
        decoder = Decoder(table.oid, table.keys, position_of(after), position_of(upto), table.key_types)
        with tempfile.TemporaryFile(prefix="pz-postgres-") as stream:
            spool = Spool(stream, frozenset({DELETE}))
            try:
                self._peek(held, decoder, upto, spool)
            except (NotCaptured, psycopg.errors.UndefinedObject):
                return
            except psycopg.Error as error:
                raise statement_error(error, self._names.subject) from error
            order = 0
            for chunk in spool.chunks(_ROWS, _BYTES):
                yield from self._stream(cursor, self._select(rules, columns, table, chunk, order), rows)
                order += len(chunk)

    # --- changes -----------------------------------------------------------------------------------------------------

    def _changes(
        self, held: psycopg.Connection[Any], table: CapturedTable, stored: Position, rows: int
    ) -> Iterator[pa.RecordBatch]:
        upto = self._flushed(held)
        self._refuse_gap(held, table, stored, upto)
        self._advance(held, stored.lsn)
        with tempfile.TemporaryFile(prefix="pz-postgres-") as stream:
            spool, decoder = self._fetch(held, table, stored, upto, None, Spool(stream))
            snapshot: str | None = None
            if decoder.unresolved:
                # Values that no change wrote anew stand in the table only, and there they may be of a later moment. So
                # the read goes on up to a moment at which the table can be seen as it was.
                walsender, upto, snapshot = create_slot(self._settings, self._names, temporary=True)
                self._keep(walsender)
                stream.seek(0)
                stream.truncate()
                spool, decoder = self._fetch(held, table, stored, upto, position_of(upto), Spool(stream))
            found = self._described(held)
            rules, columns = self._rules(found, table)
            fault = shape_fault(held, stored, table.oid, _shape(columns))
            if fault is not None:
                raise TokenRefused(self._names.subject, fault)
            cursor = self._cursor(self._names.subject)
            try:
                if snapshot is not None:
                    self._adopt(cursor, snapshot)
                order = 0
                for chunk in spool.chunks(_ROWS, _BYTES):
                    yield from self._stream(cursor, self._select(rules, columns, table, chunk, order), rows)
                    order += len(chunk)
                if not spool.rows:
                    yield from self._stream(cursor, self._select(rules, columns, table, (), 0), rows)
            finally:
                self._release(cursor)
        end = upto if snapshot is not None else position_text(max(position_of(upto), decoder.last_end))
        self._ends_at(held, end, table, found)

    def _refuse_gap(self, held: psycopg.Connection[Any], table: CapturedTable, stored: Position, flushed: str) -> None:
        fault = position_fault(slot_state(held, self._names), stored, self._names, flushed)
        if fault is None and publication_identity(held, self._names, table) != stored.publication:
            fault = f"publication {self._names.publication} was removed or made anew"
        if fault is not None:
            raise TokenRefused(self._names.subject, fault)
        wrong = publication_fault(held, self._names, table)
        if wrong is not None:
            raise TokenRefused(self._names.subject, f"publication {self._names.publication} {wrong}")

    def _flushed(self, held: psycopg.Connection[Any]) -> str:
        """The end of what is read: all that was committed before now is in the log by then, on the disk too."""
        until = time.monotonic() + _FLUSH_WAIT
        flushed, inserted = ask(held, _FLUSHED, (), self._names.subject)[0]
        while position_of(flushed) < position_of(inserted) and time.monotonic() < until:
            time.sleep(_FLUSH_PAUSE)
            flushed = ask(held, _FLUSHED, (), self._names.subject)[0][0]
        return str(flushed)

    def _advance(self, held: psycopg.Connection[Any], lsn: str) -> None:
        """Tell the server that it need not keep what was taken, as the state says: no earlier."""
        sql = (
            "SELECT pg_catalog.pg_replication_slot_advance(slot_name, %s::pg_catalog.pg_lsn) "
            "FROM pg_catalog.pg_replication_slots WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_catalog.pg_lsn"
        )
        ask(held, sql, (lsn, self._names.slot, lsn), self._names.subject)

    def _fetch(
        self,
        held: psycopg.Connection[Any],
        table: CapturedTable,
        stored: Position,
        upto: str,
        before: int | None,
        spool: Spool,
    ) -> tuple[Spool, Decoder]:
        """Whole transactions from the stored place to ``upto``, on the disk. The slot keeps all of them."""
        import psycopg

        decoder = Decoder(table.oid, table.keys, position_of(stored.lsn), before)
        try:
            self._peek(held, decoder, upto, spool)
        except NotCaptured as error:
            raise refused(
                self._names, str(error), "empty the target, then run with --full-refresh: that reads all rows"
            ) from None
        except psycopg.Error as error:
            raise statement_error(error, self._names.subject) from error
        return spool, decoder

    def _peek(self, held: psycopg.Connection[Any], decoder: Decoder, upto: str, spool: Spool) -> None:
        publication = quote_identifier(self._names.publication)
        with held.transaction(), held.cursor("pz_changes", binary=True) as cursor:
            cursor.itersize = _MESSAGES
            cursor.execute(_PEEK, (self._names.slot, upto, publication))
            for (data,) in cursor:
                for change in decoder.take(data):
                    spool.add(change)

    def _select(
        self,
        rules: Sequence[Rule],
        columns: Sequence[PgColumn],
        table: CapturedTable,
        chunk: Sequence[Change],
        order: int,
    ) -> str:
        head = (
            Rule(OP, OP, "{}", "VARCHAR", "text"),
            Rule(ORDER, ORDER, "{}", "BIGINT", "binary"),
            Rule(POSITION, POSITION, "{}", "VARCHAR", "text"),
            Rule(CHANGED_AT, CHANGED_AT, "{}", "TIMESTAMP WITH TIME ZONE", "binary"),
        )
        heads = [
            (c.op, order + i, position_text(c.position), (_EPOCH + timedelta(microseconds=c.changed_at)).isoformat())
            for i, c in enumerate(chunk, 1)
        ]
        made = relation(ENVELOPE, heads, columns, table.keys, [c.values for c in chunk], self._names.table.quoted)
        return scan((*head, *rules), made, (), self._alias)

    # --- what both share ---------------------------------------------------------------------------------------------

    def _described(self, held: psycopg.Connection[Any]) -> PgTable:
        found = describe_table(held, self._names.table, self._names.subject)
        if found is None:
            raise ConnectorError(f"{self._names.subject}: the table is gone", hint="check the name of the entity")
        return found

    def _rules(self, found: PgTable, table: CapturedTable) -> tuple[tuple[Rule, ...], tuple[PgColumn, ...]]:
        """How the columns are read, and those columns, in one order.

        Raises:
            ConnectorError: PZ0338 for a column that the log does not have, or a key that is not read.
        """
        rules = rules_of(found.columns, found.version, self._spec.columns, self._names.subject)
        by_name = {c.name.casefold(): c for c in found.columns}
        columns = tuple(by_name[r.name.casefold()] for r in rules)
        named = {r.name.casefold(): r.name for r in rules}
        missing = [key for key in table.keys if key.casefold() not in named]
        if missing:
            listed = ", ".join(missing)
            raise refused(self._names, f"columns: leaves out the key ({listed})", f"declare {listed} in columns: too")
        generated = [c.name for c in columns if c.generated]
        if generated:
            raise refused(
                self._names,
                f"the log does not hold generated columns ({', '.join(generated)})",
                "declare the other columns in columns:, and make these in the pipeline",
            )
        taken = [c.name for c in columns if c.name.casefold() in ENVELOPE]
        if taken:
            raise refused(self._names, f"a column has a name of pz's own ({taken[0]})", "rename the column")
        self.keys = tuple(named[key.casefold()] for key in table.keys)
        return rules, columns

    def _ends_at(self, held: psycopg.Connection[Any], lsn: str, table: CapturedTable, found: PgTable) -> None:
        _, columns = self._rules(found, table)
        identity = publication_identity(held, self._names, table)
        self.token = Position(self._names.slot, lsn, table.oid, identity, _shape(columns)).text()

    def _adopt(self, cursor: duckdb.DuckDBPyConnection, snapshot: str) -> None:
        from pz_postgres.local import faults

        adopt = f"SET TRANSACTION SNAPSHOT {quote_literal(snapshot)}"
        with faults(self._names.subject):
            cursor.execute("BEGIN TRANSACTION")
            cursor.execute(f"CALL postgres_execute({quote_literal(self._alias)}, {quote_literal(adopt)})")

    def _stream(self, cursor: duckdb.DuckDBPyConnection, query: str, rows: int) -> Iterator[pa.RecordBatch]:
        from pz_postgres.local import faults, stream

        with faults(self._names.subject):
            yield from stream(cursor, query, rows)

    def _run(self, held: psycopg.Connection[Any], sql: str) -> None:
        import psycopg

        try:
            held.execute(sql.encode())
        except psycopg.Error as error:
            raise statement_error(error, self._names.subject) from error

    def _keep(self, held: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
        self._connections.append(held)
        return held


def _shape(columns: Sequence[PgColumn]) -> tuple[tuple[str, str], ...]:
    return tuple((c.name, c.shown) for c in columns)
