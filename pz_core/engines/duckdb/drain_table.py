"""Drain into a table that DuckDB writes by itself: a strategy's program in one transaction."""

from __future__ import annotations

import dataclasses

import duckdb

from pz_core.contract.connector import NativeTarget
from pz_core.contract.engine import DrainResult, DrainTask
from pz_core.contract.strategy import LoadRequest, Strategy
from pz_core.engines.duckdb.dialect import translate
from pz_core.engines.duckdb.loading import Batch, ddl, exchanges_content, fit, misfit, run_program
from pz_core.engines.duckdb.session import Session, Work
from pz_core.values import Column, quote_literal, quote_path


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
        PzError: PZ0804, PZ0811, PZ0812.
        Cancelled: if told to stop before the commit.
    """
    name = quote_path(target.catalog, target.schema, target.table)
    staged_rows = batch.rows() or 0
    try:
        with session.alone_in(target.catalog, work), work.transaction():
            columns = _describe(work, target)
            changes, drop = fit(strategy, task.write.schema_policy, batch, columns, task.write.keys)
            request = dataclasses.replace(request, staged=batch.name, target=name, columns=changes.columns)
            if columns is None:
                work.run(f"CREATE SCHEMA IF NOT EXISTS {quote_path(target.catalog, target.schema)}")
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


def _counts_cheaply(work: Work, target: NativeTarget) -> bool:
    """Whether counting the target's rows costs next to nothing: DuckDB knows them of its own files."""
    return bool(
        work.count(
            "SELECT count(*) FROM duckdb_databases() "
            f"WHERE database_name = {quote_literal(target.catalog)} AND type = 'duckdb'"
        )
    )


def _describe(work: Work, target: NativeTarget) -> tuple[Column, ...] | None:
    """Columns of the target, ``None`` if it does not exist; one with a default counts as nullable."""
    rows = work.run(
        "SELECT column_name, data_type, is_nullable OR column_default IS NOT NULL FROM duckdb_columns() "
        f"WHERE database_name = {quote_literal(target.catalog)} "
        f"AND lower(schema_name) = lower({quote_literal(target.schema)}) "
        f"AND lower(table_name) = lower({quote_literal(target.table)}) ORDER BY column_index"
    ).fetchall()
    return tuple(Column(r[0], r[1], bool(r[2])) for r in rows) or None
