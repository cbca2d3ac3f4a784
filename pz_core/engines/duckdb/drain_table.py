"""Drain into a table that DuckDB writes by itself: a strategy's program in one transaction."""

from __future__ import annotations

import duckdb
import msgspec.structs

from pz_core.contract.connector import NativeTarget
from pz_core.contract.engine import DrainResult, DrainTask
from pz_core.contract.ledger import LedgerClaim
from pz_core.contract.strategy import LoadRequest, Strategy
from pz_core.engines.duckdb.dialect import translate
from pz_core.engines.duckdb.ledger import LoadLedger, attached_ledger, describe
from pz_core.engines.duckdb.loading import Batch, ddl, exchanges_content, fit, misfit, run_program
from pz_core.engines.duckdb.session import Session, Work
from pz_core.values import quote_literal, quote_path


def load_table(
    session: Session,
    batch: Batch,
    target: NativeTarget,
    strategy: Strategy,
    request: LoadRequest,
    task: DrainTask,
    work: Work,
) -> DrainResult:
    """Describe, reshape and load the target in one transaction.

    ``rows_written`` counts the rows that the program inserted, updated or merged: for a keyed strategy those of the
    batch that were left when its keys were made unique.

    Raises:
        duckdb.Error: if the target refuses the load; nothing of it stays.
        PzError: PZ0804, PZ0811, PZ0812, PZ0520 if the target has a part of the batch.
        Cancelled: if told to stop before the commit.
    """
    name = quote_path(target.catalog, target.schema, target.table)
    staged_rows = batch.rows() or 0
    try:
        with session.alone_in(target.catalog, work), work.transaction():
            columns = describe(work, target)
            ledger = None if task.ledger is None else _ledger(target, task.ledger, batch, work)
            done = None if ledger is None else ledger.delivered_by(None if columns is None else name)
            if done is not None:
                return DrainResult(staged_rows, 0, "native", delivered_by=done)
            changes, drop = fit(strategy, task.write.schema_policy, batch, columns, task.write.keys)
            request = msgspec.structs.replace(request, staged=batch.name, target=name, columns=changes.columns)
            if columns is None:
                work.run(f"CREATE SCHEMA IF NOT EXISTS {quote_path(target.catalog, target.schema)}")
            if ledger is not None:
                ledger.write(staged_rows)
            for sql in ddl(name, changes, drop):
                work.run(sql)
            counted = not strategy.traits.takes_keys and _counts_cheaply(work, target)
            before = work.count(f"SELECT count(*) FROM {name}") if counted and not exchanges_content(strategy) else 0
            written = run_program(work, translate(strategy.program(request), target.dialect))
            if not strategy.traits.takes_keys:
                batch.refuse_other_count(written=written)
            if counted:
                batch.refuse_other_count(arrived=work.count(f"SELECT count(*) FROM {name}") - before)
    except duckdb.Error as error:
        work.recognise(error)
        found = misfit(error, batch, request)
        if found is not None:
            raise found from error
        raise
    return DrainResult(staged_rows, written, "native")


def _ledger(target: NativeTarget, claim: LedgerClaim, batch: Batch, work: Work) -> LoadLedger:
    return LoadLedger(claim, *attached_ledger(target, work, batch.subject, batch.node))


def _counts_cheaply(work: Work, target: NativeTarget) -> bool:
    """Whether counting the target's rows costs next to nothing: DuckDB knows them of its own files."""
    return bool(
        work.count(
            "SELECT count(*) FROM duckdb_databases() "
            f"WHERE database_name = {quote_literal(target.catalog)} AND type = 'duckdb'"
        )
    )
