"""Drain into a database behind an extension: DuckDB moves the rows there, and the strategy's program runs there.

Source: DESIGN "Contracts in short" (a strategy's program runs where the target lives, transpiled).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb

from pz_core.contract.connector import ConnectorError, NativeTarget, Sink
from pz_core.contract.engine import DrainResult, DrainTask
from pz_core.contract.remote import (
    RemoteSink,
    RemoteTable,
    Staging,
    StagingRequest,
    commit_unknown,
    count_unfit,
    first_unfit,
    refuse_changed,
    refuse_unfit,
)
from pz_core.contract.strategy import LoadRequest, Strategy, plain_insert
from pz_core.engines.duckdb.dialect import translate
from pz_core.engines.duckdb.landing import connector_faults
from pz_core.engines.duckdb.ledger import LoadLedger, refuse_without
from pz_core.engines.duckdb.loading import Batch, ddl, fit
from pz_core.engines.duckdb.session import Session, Work
from pz_core.errors import PzError, Where


def load_remote(
    session: Session,
    sink: Sink,
    batch: Batch,
    target: NativeTarget,
    strategy: Strategy,
    request: LoadRequest,
    task: DrainTask,
    work: Work,
) -> DrainResult:
    """Describe, reshape and load the target in one transaction of the database.

    ``rows_written`` is what the database says that the program inserted, updated or merged.

    Raises:
        ConnectorError: PZ0812, or what the database said, in the connector's words.
        PzError: PZ0804, PZ0811, PZ0324, PZ0520 if the target has a part of the batch.
        Cancelled: if told to stop before the commit.
    """
    if target.remote is None or not isinstance(sink, RemoteSink):
        raise PzError(
            "PZ0324",
            f"{batch.subject}: the connector cannot run a program in SQL of '{target.dialect}'",
            where=Where(node=batch.node),
            hint="set engine.force_universal: true, and report it to the connector's authors",
        )
    load = _Load(sink, target.remote, batch, task, work)
    try:
        with connector_faults(batch.subject, batch.node):
            return load.run(strategy, request)
    finally:
        work.shield()
        with contextlib.suppress(duckdb.Error):
            work.cursor.execute(target.remote.detach)


class _Load:
    """One load."""

    def __init__(self, sink: RemoteSink, remote: RemoteTable, batch: Batch, task: DrainTask, work: Work) -> None:
        self._sink = sink
        self._remote = remote
        self._batch = batch
        self._task = task
        self._work = work
        self._identity: str | None = None

    def run(self, strategy: Strategy, request: LoadRequest) -> DrainResult:
        batch, task = self._batch, self._task
        staged_rows = batch.rows() or 0
        columns = self._sink.describe(task.write)
        changes, drop = fit(strategy, task.write.schema_policy, batch, columns, task.write.keys)
        request = dataclasses.replace(
            request,
            staged=self._remote.staged,
            target=self._remote.target,
            columns=changes.columns,
            order=self._remote.order,
        )
        program = strategy.program(request)
        plain = plain_insert(request)
        copying = [sql == plain for sql in program]
        staging = self._sink.staging(
            StagingRequest(
                task.write,
                batch.columns,
                changes.columns,
                batch.name,
                straight=sum(self._remote.staged in sql for sql in program) == 1 and sum(copying) == 1,
                anew=columns is None or drop,
                alone=not all(copying),
            )
        )
        self._refuse_unfit(staging)
        shape = translate(ddl(self._remote.target, changes, drop), "postgres")
        statements = [translate((sql,), "postgres") for sql in program]
        with self._transaction():
            ledger = self._ledger()
            done = None if ledger is None else ledger.delivered_by(None if columns is None else self._remote.target)
            if done is not None:
                return DrainResult(staged_rows, 0, "native", delivered_by=done)
            for sql in (*staging.first, *shape, *staging.before):
                self._execute(sql)
            if ledger is not None:
                ledger.write(staged_rows)
            written = self._load(staging, statements, copying, staged_rows)
        if not strategy.traits.takes_keys:
            batch.refuse_other_count(written=written)
        return DrainResult(staged_rows, written, "native", choices=staging.choices)

    def _load(
        self, staging: Staging, statements: Sequence[Sequence[str]], copying: Sequence[bool], staged_rows: int
    ) -> int:
        moved = 0
        if not staging.straight:
            moved = self._move(staging)
            self._batch.refuse_other_count(moved=moved)
            for sql in staging.after:
                self._execute(sql)
            for sql, told in staging.proofs:
                changed = self._ask(sql)[0][0]
                if changed:
                    refuse_changed(told, int(changed), self._batch.subject)
        written = 0
        for translated, copies in zip(statements, copying, strict=True):
            if staging.straight and copies:
                written += self._move(staging)
                continue
            for sql in translated:
                self._execute(self._sink.counted(sql))
        return written + int(self._ask(self._sink.count())[0][0])

    def _refuse_unfit(self, staging: Staging) -> None:
        if not staging.unfit:
            return
        counts = self._work.run(count_unfit(staging.unfit, self._batch.name)).fetchone() or ()
        for test, count in zip(staging.unfit, counts, strict=True):
            if count:
                row = self._work.run(first_unfit(test, self._batch.name)).fetchone() or (1,)
                refuse_unfit(test, int(count), int(row[0]), self._batch.subject)

    def _ledger(self) -> LoadLedger | None:
        claim = self._task.ledger
        if claim is None:
            return None
        if self._remote.ledger is None:
            refuse_without(self._batch.subject, self._batch.node)

        def ask(sql: str) -> Sequence[Sequence[Any]]:
            rows: Sequence[Sequence[Any]] = ()
            for statement in translate((sql,), "postgres"):
                rows = self._ask(statement) if statement.lstrip()[:6].upper() == "SELECT" else self._execute(statement)
            return rows

        return LoadLedger(claim, self._remote.ledger, ask)

    # --- statements ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; a commit that was not answered is looked into on another connection."""
        work = self._work
        self._run("BEGIN TRANSACTION")
        work.also_on_cancel(self._cancel)
        try:
            self._identity = str(self._ask(self._remote.identity)[0][0])
            yield
            work.control.raise_if_cancelled()
        except BaseException:
            work.shield()
            with contextlib.suppress(duckdb.Error):
                work.cursor.execute("ROLLBACK")
            raise
        work.shield()
        identity, self._identity = self._identity, None
        try:
            work.cursor.execute("COMMIT")
        except duckdb.Error as error:
            done = None if identity is None else self._sink.outcome(identity)
            if done is None:
                raise commit_unknown(self._batch.subject) from error
            if not done:
                raise self._fault(error) from error

    def _cancel(self) -> None:
        if self._identity is not None:
            self._sink.cancel(self._identity)

    def _move(self, staging: Staging) -> int:
        row = self._run(staging.move).fetchone()
        return int(row[0]) if row else 0

    def _execute(self, sql: str) -> Sequence[Sequence[Any]]:
        self._run(self._remote.executing(sql))
        return ()

    def _ask(self, sql: str) -> Sequence[Sequence[Any]]:
        return self._run(self._remote.querying(sql)).fetchall()

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self._work.run(sql)
        except duckdb.Error as error:
            raise self._fault(error) from error

    def _fault(self, error: duckdb.Error) -> ConnectorError:
        found = self._sink.fault(error, self._task.write)
        found.where = Where(node=self._batch.node)
        return found
