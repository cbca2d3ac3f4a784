"""Materialise: a pipeline's query becomes a table or a view in ``staging``."""

from __future__ import annotations

import re

import duckdb

from pz_core.contract.engine import MaterialiseResult, MaterialiseTask
from pz_core.engines.duckdb.errors import counts_disagree, pipeline_error
from pz_core.engines.duckdb.session import Work, staged
from pz_core.engines.duckdb.statements import one_select
from pz_core.errors import Notice, Where
from pz_core.values import Column

#: How DuckDB tells a second column of one name from the first.
_NUMBERED = re.compile(r"(.+)_\d+")
_HINT = "correct the pipeline's SQL; pz compile shows it as it runs, under .pz/target/compiled"


def materialise(task: MaterialiseTask, work: Work, name: str | None = None) -> MaterialiseResult:
    """Make the relation; what was there under its name before is replaced, or stays if this fails.

    Args:
        task: what to make.
        work: of the task.
        name: quoted name of the relation; without it the one in ``staging`` of the run's own file.

    Raises:
        PzError: PZ0501 in DuckDB's words; a guard inside the SQL fails under its own code.
        Cancelled: if told to stop.
    """
    node, target = task.node.name, name or staged(task.relation)
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
    renamed = _renamed(task, work, columns)
    return MaterialiseResult(rows, columns, () if renamed is None else (renamed,))


def _renamed(task: MaterialiseTask, work: Work, columns: tuple[Column, ...]) -> Notice | None:
    """A note where DuckDB gave columns of one name names of its own: the second ``id`` of a join becomes ``id_1``."""
    names = {column.name.casefold() for column in columns}
    if not any((m := _NUMBERED.fullmatch(column.name)) and m[1].casefold() in names for column in columns):
        return None
    try:
        written = [str(row[0]) for row in work.run(f"DESCRIBE {task.sql}").fetchall()]
    except duckdb.Error:
        return None  # nothing that can be described, such as a PIVOT; its names are made up in any case
    if len(written) != len(columns):
        return None
    pairs = zip(written, (column.name for column in columns), strict=True)
    changed = [f"'{old}' is '{new}'" for old, new in pairs if old != new]
    if not changed:
        return None
    return Notice(
        "note",
        f"pipeline {task.node.name} has columns of one name, and later ones are called otherwise: {', '.join(changed)}",
        where=Where(node=task.node.name),
        hint="give each column a name of its own with AS",
    )
