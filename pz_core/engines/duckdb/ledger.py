"""The ledger of a target, asked and written where the target is: on an attached database, or in a SQL write session.

Sources: DECISIONS 4 (the ledger of an append); its statements and its judgement stand in the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NoReturn

import duckdb
import msgspec.structs

from pz_core.contract.connector import NativeStream, NativeTarget, Sink, SqlWriteSession, WriteSession
from pz_core.contract.engine import DrainTask, Host
from pz_core.contract.ledger import (
    Ask,
    LedgerClaim,
    LedgerEntry,
    LedgerSession,
    LedgerState,
    create_ledger,
    delivered_by,
    look_at_target,
    read_ledger,
    record,
    refuse_lost_race,
)
from pz_core.engines.duckdb.dialect import translate
from pz_core.engines.duckdb.errors import edge_error
from pz_core.engines.duckdb.landing import connector_faults
from pz_core.engines.duckdb.session import Session, Work
from pz_core.errors import PzError, Where
from pz_core.values import Column, quote_literal, quote_path

#: What a session is begun with that only looks at a ledger.
_NO_COLUMNS = (Column("pz_none", "BOOLEAN"),)


class LoadLedger:
    """The ledger in the transaction of one load.

    Args:
        claim: what the load asks and leaves.
        table: quoted name.
        ask: runs a statement in the transaction and gives its rows.
    """

    def __init__(self, claim: LedgerClaim, table: str, ask: Ask) -> None:
        self._claim = claim
        self._table = table
        self._ask = ask
        self._before: tuple[LedgerEntry, ...] = ()

    def delivered_by(self, target: str | None) -> str | None:
        """The run that has written this batch before, if one has.

        Args:
            target: quoted name of the target, ``None`` if it does not exist.

        Raises:
            PzError: PZ0520 if the target has a part of it, PZ0505.
        """
        self._before = read_ledger(self._table, self._claim, self._ask)
        there: Literal["missing", "empty", "filled"] = "missing" if target is None else "filled"
        if target is not None and self._claim.anew and self._before:
            there = look_at_target(target, self._ask)
        return delivered_by(self._claim, LedgerState(self._before, there))

    def write(self, rows: int) -> None:
        """Write the batch's entries; nobody else can write this output from here to the end of the transaction.

        Raises:
            PzError: PZ0520 if somebody else did meanwhile.
        """
        for sql in record(self._table, self._claim, self._before, rows):
            self._ask(sql)
        refuse_lost_race(self._claim, read_ledger(self._table, self._claim, self._ask), rows)


def open_ledger(session: Session, host: Host, task: DrainTask, work: Work) -> LedgerState:
    """Make the ledger of a task's target if there is none, and read it.

    Raises:
        ConnectorError: what the connector said, or a fault of DuckDB on the target.
        PzError: PZ0324 if the target has no place for a ledger.
        Cancelled: if told to stop.
    """
    assert task.ledger is not None  # nobody asks without
    subject, node = f"{task.connection}.{task.write.entity}", task.node.name
    with connector_faults(subject, node):
        sink = host.connector(task.connection).open_sink()
        try:
            if task.tier == "native":
                way = sink.native_write(task.write)
                if isinstance(way, NativeTarget):
                    return _open_attached(session, way, task.ledger, work, subject, node)
                if not isinstance(way, NativeStream):
                    refuse_without(subject, node)
            return _open_session(sink, task, subject, node)
        finally:
            sink.close()


def _open_attached(
    session: Session, target: NativeTarget, claim: LedgerClaim, work: Work, subject: str, node: str
) -> LedgerState:
    session.set_up(work, target.setup, subject, node)
    table, ask = attached_ledger(target, work, subject, node)
    name = quote_path(target.catalog, target.schema, target.table)
    try:
        with session.alone_in(target.catalog, work), work.transaction():
            exists = describe(work, target) is not None
            if not exists:
                work.run(f"CREATE SCHEMA IF NOT EXISTS {quote_path(target.catalog, target.schema)}")
            return _opened(table, claim, ask, name if exists else None)
    except duckdb.Error as error:
        work.recognise(error)
        raise edge_error(error, subject, node) from error


def _open_session(sink: Sink, task: DrainTask, subject: str, node: str) -> LedgerState:
    assert task.ledger is not None
    session = sink.begin(msgspec.structs.replace(task.write, columns=_NO_COLUMNS), _NO_COLUMNS)
    committing = False
    try:
        table, ask = session_ledger(session, subject, node)
        assert isinstance(session, SqlWriteSession)
        target = None if session.columns() is None else session.target
        state = _opened(table, task.ledger, ask, target)
        committing = True
        session.commit()
    except BaseException:
        if not committing:
            session.abort()
        raise
    return state


def _opened(table: str, claim: LedgerClaim, ask: Ask, target: str | None) -> LedgerState:
    ask(create_ledger(table))
    entries = read_ledger(table, claim, ask)
    return LedgerState(entries, "missing" if target is None else look_at_target(target, ask))


def attached_ledger(target: NativeTarget, work: Work, subject: str, node: str) -> tuple[str, Ask]:
    """The ledger of a target that DuckDB writes by itself.

    Raises:
        PzError: PZ0324 if it has none.
    """
    if target.ledger is None:
        refuse_without(subject, node)

    def ask(sql: str) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = ()
        for statement in translate((sql,), target.dialect):
            rows = work.run(statement).fetchall()
        return rows

    return quote_path(target.catalog, target.schema, target.ledger), ask


def session_ledger(session: WriteSession | SqlWriteSession, subject: str, node: str) -> tuple[str, Ask]:
    """The ledger of a session.

    Raises:
        PzError: PZ0324 if it has none.
    """
    if not isinstance(session, LedgerSession):
        refuse_without(subject, node)
    held: LedgerSession = session

    def ask(sql: str) -> Sequence[Sequence[Any]]:
        rows: list[tuple[Any, ...]] = []
        for statement in translate((sql,), held.dialect):
            rows = [row for batch in held.execute(statement) for row in zip(*batch.to_pydict().values(), strict=True)]
        return rows

    return held.ledger, ask


def describe(work: Work, target: NativeTarget) -> tuple[Column, ...] | None:
    """Columns of a target, ``None`` if it does not exist; one with a default counts as nullable."""
    rows = work.run(
        "SELECT column_name, data_type, is_nullable OR column_default IS NOT NULL FROM duckdb_columns() "
        f"WHERE database_name = {quote_literal(target.catalog)} "
        f"AND lower(schema_name) = lower({quote_literal(target.schema)}) "
        f"AND lower(table_name) = lower({quote_literal(target.table)}) ORDER BY column_index"
    ).fetchall()
    return tuple(Column(r[0], r[1], bool(r[2])) for r in rows) or None


def refuse_without(subject: str, node: str) -> NoReturn:
    """PZ0324 for a target without a place for a ledger."""
    raise PzError(
        "PZ0324",
        f"{subject}: the connector gives this target no ledger, which duplicates: 'refuse' needs",
        where=Where(node=node),
        hint="write duplicates: 'accept', or use a strategy with keys",
    )
