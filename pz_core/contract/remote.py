"""Loads into a database that DuckDB reaches through an extension: rows go by DuckDB, the program runs in the database.

The target is not DuckDB's own, so three things are the connector's: what the target's columns are, how a batch is laid
beside it so that every value arrives as it is, and what became of a commit that was never answered. All of it crosses
as data. The statements of one load run in one transaction of the engine's DuckDB, which is one of the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol, runtime_checkable

from pz_core.contract.connector import ConnectorError, WriteSpec
from pz_core.values import Column, quote_literal

#: Stands in the templates of :class:`RemoteTable` for the statement, as a literal.
STATEMENT = "{statement}"


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """How a load talks to a database through the engine's DuckDB.

    Args:
        target, staged: quoted names of the table and of the batch beside it, in the database's own SQL.
        order: expression over ``staged`` that gives the order of arrival.
        execute: template of a statement in DuckDB's SQL that runs one in the database.
        query: the same for one that gives rows.
        identity: a query of one row for the database: a text that :meth:`RemoteSink.outcome` and
            :meth:`RemoteSink.cancel` understand, for the transaction that it runs in.
        detach: statement of the engine's DuckDB that ends the connection.
        ledger: quoted name of the ledger's table, in the database's own SQL.
    """

    target: str
    staged: str
    order: str
    execute: str
    query: str
    identity: str
    detach: str
    ledger: str | None = None

    def executing(self, sql: str) -> str:
        """A statement of the database as one of DuckDB."""
        return self.execute.replace(STATEMENT, quote_literal(sql))

    def querying(self, sql: str) -> str:
        """A query of the database as one of DuckDB."""
        return self.query.replace(STATEMENT, quote_literal(sql))


@dataclass(frozen=True, slots=True)
class Unfit:
    """A test that a value of the batch cannot be carried exactly.

    Args:
        column: its name in the batch.
        condition: in DuckDB's SQL over the batch; true for such a value.
        told: what is then told after the column's name, such as ``holds a NUL character, which text cannot``.
    """

    column: str
    condition: str
    told: str


@dataclass(frozen=True, slots=True)
class StagingRequest:
    """What is to be laid beside a target.

    Args:
        spec: of the write.
        batch: columns of the batch.
        columns: those to write, as the target has them once it has its shape.
        relation: quoted name of the batch in DuckDB.
        straight: whether the program only copies the batch as it is, so that it may go into the target itself.
        anew: whether the target is made, or made anew, in this load.
        alone: whether other loads of the target must wait for this one.
    """

    spec: WriteSpec
    batch: tuple[Column, ...]
    columns: tuple[Column, ...]
    relation: str
    straight: bool = False
    anew: bool = False
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Staging:
    """How a batch gets beside its target, or into it.

    Args:
        unfit: tests of the batch, before anything else.
        first: statements for the database at the start of the transaction, before the target gets its shape.
        before: statements for the database once it has, before rows come.
        move: the statement of DuckDB that moves the rows.
        after: statements for the database once the rows are there.
        proofs: queries for the database after that, each a count of values that arrived otherwise, with what to tell.
        straight: whether ``move`` has written the target itself.
        choices: what was decided for the columns, by topic, for the run's results.
    """

    unfit: tuple[Unfit, ...]
    first: tuple[str, ...]
    before: tuple[str, ...]
    move: str = field(repr=False, default="")
    after: tuple[str, ...] = ()
    proofs: tuple[tuple[str, str], ...] = ()
    straight: bool = False
    choices: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class RemoteSink(Protocol):
    """A sink whose native targets carry a :class:`RemoteTable`."""

    def describe(self, spec: WriteSpec) -> tuple[Column, ...] | None:
        """Columns of the target in DuckDB's types, ``None`` if it does not exist.

        One that takes any text and keeps it as a type of its own is ``VARCHAR``; one with a default counts as nullable.
        """

    def staging(self, request: StagingRequest) -> Staging:
        """How the batch gets there.

        Raises:
            ConnectorError: PZ0812 for a type of the batch that the database has no place for.
        """

    def counted(self, sql: str) -> str:
        """A statement of the program in a form that also adds the rows that it inserted, updated or merged."""

    def count(self) -> str:
        """The query for the database that gives the sum of those rows."""

    def outcome(self, identity: str) -> bool | None:
        """Whether a transaction was committed; ``None`` if that cannot be found out now."""

    def cancel(self, identity: str) -> None:
        """Stop what runs in a transaction; never raises."""

    def fault(self, error: BaseException, spec: WriteSpec) -> ConnectorError:
        """What DuckDB raised in a statement of a load, in the connector's words, without a value of the data."""


def count_unfit(tests: Sequence[Unfit], relation: str) -> str:
    """A query of DuckDB that gives, for each test, how many values fail it."""
    counts = ", ".join(f"count(*) FILTER (WHERE {test.condition})" for test in tests)
    return f"SELECT {counts} FROM {relation}"


def first_unfit(test: Unfit, relation: str) -> str:
    """A query of DuckDB that gives the number of the first row that fails a test."""
    return (
        f"SELECT min(pz_row) FROM (SELECT row_number() OVER () AS pz_row, ({test.condition}) AS pz_bad "
        f"FROM {relation}) WHERE pz_bad"
    )


def refuse_unfit(test: Unfit, count: int, row: int, subject: str) -> NoReturn:
    """PZ0812 for values that fail a test."""
    raise ConnectorError(
        f"{subject}: column '{test.column}' {test.told} ({count} of them, the first in row {row} of the batch)",
        code="PZ0812",
        hint="cast or filter the column in the pipeline, or change the target's type",
    )


def refuse_changed(told: str, count: int, subject: str) -> NoReturn:
    """PZ0812 for values that a proof found changed."""
    raise ConnectorError(
        f"{subject}: {told} ({count} of them)",
        code="PZ0812",
        hint="cast the column in the pipeline to the form in which the target keeps it, or change the target's type",
    )


def commit_unknown(subject: str) -> ConnectorError:
    """The connection was lost after COMMIT was sent, and nobody can say how it ended."""
    return ConnectorError(
        f"{subject}: the connection was lost when the load was being committed, and whether it was cannot be found out",
        hint="look into the target before you run pz retry: it holds either all rows of the load or none",
    )
