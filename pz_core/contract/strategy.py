"""The contract of a strategy: what a target must hold after the load, said once, in DuckDB's SQL.

The program runs where the target lives: in DuckDB on an attached database or on a copy of a file's content, or
transpiled, inside a database through its connector's session. Two things that most programs do have a form of their
own, :func:`plain_insert` and :class:`Upsert`, so that a session can recognise them and do them in a quicker way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol

from msgspec import Struct, field

from pz_core.contract.capabilities import LoadMode
from pz_core.contract.options import OptionSet
from pz_core.values import Column, Value, quote_identifier


class StrategyTraits(Struct, frozen=True):
    """What compiler and planner must know of a strategy; rules follow from these, never from its name.

    Args:
        takes_keys: ``keys`` are needed (PZ0209); without it they are refused (PZ0211).
        idempotent: loading the same batch twice gives what loading it once gives (else PZ0214 below a delta).
        needs_complete_batch: the batch must be all there is (PZ0335 below a delta).
        takes_changes: deletes of a change capture can be applied (else PZ0335 below ``cdc``).
        load_modes: ways in which it can run, best first.
    """

    takes_keys: bool
    idempotent: bool
    needs_complete_batch: bool
    takes_changes: bool
    load_modes: tuple[LoadMode, ...]


class Probe(Struct, frozen=True):
    """A question asked of the staged rows before anything is written.

    Args:
        code: of the error or warning.
        sql: a SELECT of one row; the first column is a count, above zero means the probe trips.
        severity: ``error`` fails the node before anything is written.
        message: text in which ``{0}``, ``{1}`` … stand for the columns of the row.
        hint: what to do.
        fields: names of the row's columns, for the event.
    """

    code: str
    sql: str
    severity: Literal["error", "warning"]
    message: str
    hint: str | None = None
    fields: tuple[str, ...] = ()


class LoadRequest(Struct, frozen=True):
    """What a strategy is asked to load.

    Args:
        output: ``connection.entity``, for messages.
        staged: quoted name of the relation that holds the batch.
        target: quoted name of the target table, which exists and has ``columns``.
        columns: columns to write, in the batch's order.
        keys: merge keys.
        order: expression over ``staged`` that gives the order of arrival.
        options: the strategy's own options.
        run_id, started_at: of this run; ``started_at`` is an ISO text in UTC.
        source_system: the one connection that the rows came from, if it is one.
        gone: name of a BOOLEAN column of ``staged`` that is true where a row is only the key of a row to delete
            (:mod:`pz_core.contract.capture`); it is none of ``columns``. ``None`` where there is nothing to delete.
        on_delete: what becomes of a deleted row in the target: ``delete``, ``soft`` or ``ignore``.
        tripped: codes of the probes that tripped; ``None`` where they were not asked.
    """

    output: str
    staged: str
    target: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    order: str = "rowid"
    options: Mapping[str, Value] = field(default_factory=dict)
    run_id: str = ""
    started_at: str = ""
    source_system: str | None = None
    gone: str | None = None
    on_delete: str | None = None
    tripped: frozenset[str] | None = None


def plain_insert(request: LoadRequest) -> str:
    """The statement that adds every row of the batch to the target: an engine may carry it out by copying."""
    names = ", ".join(quote_identifier(c.name) for c in request.columns)
    return f"INSERT INTO {request.target} ({names}) SELECT {names} FROM {request.staged}"


class Upsert(Struct, frozen=True):
    """Rows of which each changes the target's row of its key, or is added where there is none.

    A strategy puts :meth:`statements` into its program. They are SQL like any other and can be run as they are. A
    session that foresees its program (:class:`~pz_core.contract.connector.ForeseeingSession`) finds this behind each
    of them, and may do the same in its own way, such as in one statement; it need not parse them.

    Args:
        target: quoted name of the table.
        columns: names of the columns to write; of a row that is there those besides the keys are written.
        keys: those of the columns that a row is found by, with ``=``.
        rows: a SELECT in parentheses that gives ``columns``: at most one row a key, and no NULL in a key.
        distinct: a shorter one of the same rows, where a probe found no key twice; ``None`` elsewhere. DuckDB compared
            the keys then: it is for where what is equal to the target is equal to DuckDB too.
    """

    target: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    rows: str
    distinct: str | None = None

    def statements(self) -> tuple[UpsertStatement, ...]:
        """Update what is there, then insert what is not; only the latter where there is nothing besides the keys."""
        batch, there = quote_identifier("pz_batch"), quote_identifier("pz_target")
        quoted = {name: quote_identifier(name) for name in self.columns}
        same = " AND ".join(f"{there}.{quoted[k]} = {batch}.{quoted[k]}" for k in self.keys)
        sets = ", ".join(f"{quoted[n]} = {batch}.{quoted[n]}" for n in self.columns if n not in self.keys)
        fields = ", ".join(f"{batch}.{quoted[n]}" for n in self.columns)
        made = [f"UPDATE {self.target} AS {there} SET {sets} FROM {self.rows} AS {batch} WHERE {same}"] if sets else []
        made.append(
            f"INSERT INTO {self.target} ({', '.join(quoted.values())}) SELECT {fields} FROM {self.rows} AS {batch} "
            f"WHERE NOT EXISTS (SELECT 1 FROM {self.target} AS {there} WHERE {same})"
        )
        return tuple(UpsertStatement(sql, self) for sql in made)


class UpsertStatement(str):
    """One of the statements of an :class:`Upsert`, which stand together and in their order.

    Where a program has to be said in another dialect, and the statement with it, only its text is left.

    Args:
        sql: the statement.
        upsert: what it is a part of.
    """

    __slots__ = ("upsert",)
    upsert: Upsert

    def __new__(cls, sql: str, upsert: Upsert) -> UpsertStatement:
        """A text that knows what it is a part of."""
        made = super().__new__(cls, sql)
        made.upsert = upsert
        return made

    def __reduce__(self) -> tuple[type[UpsertStatement], tuple[str, Upsert]]:
        return type(self), (str(self), self.upsert)


class Strategy(Protocol):
    """A way to load. The class is what a registration's target names."""

    name: ClassVar[str]
    options: ClassVar[OptionSet]
    traits: ClassVar[StrategyTraits]

    def probes(self, request: LoadRequest) -> tuple[Probe, ...]:
        """Questions to ask of the staged rows before anything is written (``target`` may not exist yet)."""

    def program(self, request: LoadRequest) -> tuple[str, ...]:
        """Statements in DuckDB's SQL that turn the target into what it must hold, run in one transaction."""
