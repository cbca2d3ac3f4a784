"""The batch that is loaded, and how a target is made to take it: DDL, counts, values that do not fit."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
from msgspec import Struct, field

from pz_core.contract.load import Reconciled, reconcile
from pz_core.contract.strategy import LoadRequest, Strategy
from pz_core.engines.duckdb.errors import counts_disagree
from pz_core.engines.duckdb.session import Work
from pz_core.errors import PzError, Where
from pz_core.values import Column, quote_identifier
from pz_core.values.duckdb_inserts import UNORDERED

_SETTLED = quote_identifier("pz_settled")
_COUNTED = {duckdb.StatementType.INSERT, duckdb.StatementType.UPDATE, duckdb.StatementType.MERGE_INTO}


class Batch(Struct):
    """The staged rows of a load.

    Args:
        work: of the task.
        name: quoted name of the relation.
        columns: as DuckDB describes them.
        subject: ``connection.entity`` of the output.
        node: name of the node.
        gone: name of the column that is true for keys to delete; ``None`` where all rows are to be written.
        deletes: so many rows are keys to delete.
        passing: whether it is a plain view of one scan, whose rows are made as they are asked for.
    """

    work: Work
    name: str
    columns: tuple[Column, ...]
    subject: str
    node: str
    gone: str | None = None
    deletes: int = 0
    passing: bool = False
    _rows: int | None = field(default=None)

    @property
    def loaded(self) -> tuple[Column, ...]:
        """The columns that the target is to have."""
        return tuple(c for c in self.columns if c.name != self.gone)

    def marked(self, name: str, columns: tuple[Column, ...], gone: str, deletes: int) -> None:
        """Take another relation, which has the rows and the keys to delete."""
        self.name, self.columns, self.gone, self.deletes, self._rows = name, columns, gone, deletes, None

    def is_table(self) -> bool:
        """Whether rows have a ``rowid`` and are there already; a view makes them anew each time it is asked."""
        if self.passing:
            return False  # to ask that may take a look at the place that is read
        try:
            self.work.run(f"SELECT rowid FROM {self.name} LIMIT 0")
        except duckdb.BinderException:
            return False
        return True

    def settle(self) -> None:
        """Hold the rows of a view in a temporary table, so that they are made once and keep their order."""
        if not self.is_table():
            self._rows = self.work.count(f"CREATE OR REPLACE TEMP TABLE {_SETTLED} AS SELECT * FROM {self.name}")
            self.name = _SETTLED

    def rows(self) -> int | None:
        """How many rows there are; ``None`` for a view, whose rows are not to be made just for that."""
        if self._rows is None and self.is_table():
            self._rows = self.work.count(f"SELECT count(*) FROM {self.name}")
        return self._rows

    def refuse_other_count(self, **written: int) -> None:
        """PZ0811 unless every count given is the number of staged rows."""
        rows = self.rows()
        if rows is not None and any(count != rows for count in written.values()):
            raise counts_disagree(self.subject, self.node, staged=rows, **written)


def exchanges_content(strategy: Strategy) -> bool:
    """Whether a strategy leaves nothing of the old content, so that the target's shape can become the batch's."""
    return "swap" in strategy.traits.load_modes and not strategy.traits.takes_keys


def fit(
    strategy: Strategy, policy: str, batch: Batch, target: tuple[Column, ...] | None, keys: tuple[str, ...]
) -> tuple[Reconciled, bool]:
    """What to do to the target before the load.

    Returns:
        The changes, and whether the old table is to be dropped for a new one first.

    Raises:
        PzError: PZ0804.
    """
    renewed = target is not None and policy == "evolve" and exchanges_content(strategy)
    if renewed and _shape(target or ()) != _shape(batch.loaded):
        return reconcile(policy, batch.loaded, None, batch.subject, keys), True
    return reconcile(policy, batch.loaded, target, batch.subject, keys), False


def _shape(columns: Sequence[Column]) -> list[tuple[str, str]]:
    return [(c.name, c.type) for c in columns]


def ddl(target: str, changes: Reconciled, drop: bool) -> tuple[str, ...]:
    """Statements in DuckDB's SQL that give the target its shape."""
    made: list[str] = [f"DROP TABLE {target}"] if drop else []
    if changes.create:
        body = ", ".join(f"{quote_identifier(c.name)} {c.type}" for c in changes.columns)
        made.append(f"CREATE TABLE {target} ({body})")
    made += [f"ALTER TABLE {target} ADD COLUMN {quote_identifier(c.name)} {c.type}" for c in changes.add]
    for c in changes.widen:
        made.append(f"ALTER TABLE {target} ALTER COLUMN {quote_identifier(c.name)} SET DATA TYPE {c.type}")
    return tuple(made)


def run_program(work: Work, program: Sequence[str]) -> int:
    """Run a strategy's statements on DuckDB, and say how many rows they inserted, updated or merged."""
    kinds = [{s.type for s in work.cursor.extract_statements(sql)} for sql in program]
    if sum(duckdb.StatementType.INSERT in kind for kind in kinds) > 1:
        work.run(UNORDERED)
    rows = 0
    for kind, sql in zip(kinds, program, strict=True):
        row = work.run(sql).fetchone()
        if kind <= _COUNTED and row and isinstance(row[0], int):
            rows += row[0]
    return rows


def misfit(error: duckdb.Error, batch: Batch, request: LoadRequest) -> PzError | None:
    """PZ0812 for an error that says a value does not go into the target's type, naming column, row and type.

    Returns:
        ``None`` if no value can be found that does not fit; the error then has another cause.
    """
    if not isinstance(error, (duckdb.ConversionException, duckdb.OutOfRangeException)):
        return None
    given = {c.name.casefold(): c for c in batch.columns}
    for column in request.columns:
        own = given.get(column.name.casefold())
        if own is None or own.type == column.type:
            continue
        name = quote_identifier(own.name)
        try:
            row = batch.work.cursor.execute(
                f"SELECT count(*), min(position) FROM (SELECT {name} AS v, row_number() OVER () AS position "
                f"FROM {batch.name}) WHERE v IS NOT NULL AND TRY_CAST(v AS {column.type}) IS NULL"
            ).fetchone()
        except duckdb.Error:
            continue
        if row and row[0]:
            return PzError(
                "PZ0812",
                f"{batch.subject}: column '{own.name}' holds {row[0]} values of type {own.type} that do not go exactly "
                f"into the target's {column.type}, the first in row {row[1]} of the batch",
                where=Where(node=batch.node),
                hint="cast the column in the pipeline, or change the target's type",
                cause=error,
            )
    return None
