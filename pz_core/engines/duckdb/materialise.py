"""Materialise: a pipeline's query becomes a table or a view in ``staging``."""

from __future__ import annotations

import duckdb

from pz_core.contract.engine import MaterialiseResult, MaterialiseTask
from pz_core.engines.duckdb.errors import counts_disagree, pipeline_error
from pz_core.engines.duckdb.session import Work, staged
from pz_core.engines.duckdb.statements import one_select

_HINT = "correct the pipeline's SQL; pz compile shows it as it runs, under .pz/target/compiled"


def materialise(task: MaterialiseTask, work: Work) -> MaterialiseResult:
    """Make the relation; what was there under its name before is replaced, or stays if this fails.

    Raises:
        PzError: PZ0501 in DuckDB's words; a guard inside the SQL fails under its own code.
        Cancelled: if told to stop.
    """
    node, target = task.node.name, staged(task.relation)
    one_select(work, task.sql, node, "the pipeline", _HINT)
    kind, other = ("VIEW", "TABLE") if task.as_view else ("TABLE", "VIEW")
    make = f"CREATE OR REPLACE {kind} {target} AS\n{task.sql}"
    try:
        with work.transaction():
            try:
                made = work.run(make)
            except duckdb.CatalogException as error:
                if "trying to replace with type" not in str(error):
                    raise
                work.run(f"DROP {other} {target}")
                made = work.run(make)
            row = None if task.as_view else made.fetchone()
            columns = work.columns(target)
            rows = None if task.as_view else work.count(f"SELECT count(*) FROM {target}")
            if row and row[0] != rows:  # a PIVOT says no count
                raise counts_disagree(f"pipeline {node}", node, made=int(row[0]), staged=rows or 0)
    except duckdb.Error as error:
        work.recognise(error)
        raise pipeline_error(error, node, _HINT) from error
    return MaterialiseResult(rows, columns)
