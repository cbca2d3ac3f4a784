"""The contract of a strategy: what a target must hold after the load, said once, in DuckDB's SQL.

The program runs where the target lives: in DuckDB on an attached database or on a copy of a file's content, or
transpiled, inside a database through its connector's session.
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


def plain_insert(request: LoadRequest) -> str:
    """The statement that adds every row of the batch to the target: an engine may carry it out by copying."""
    names = ", ".join(quote_identifier(c.name) for c in request.columns)
    return f"INSERT INTO {request.target} ({names}) SELECT {names} FROM {request.staged}"


class Strategy(Protocol):
    """A way to load. The class is what a registration's target names."""

    name: ClassVar[str]
    options: ClassVar[OptionSet]
    traits: ClassVar[StrategyTraits]

    def probes(self, request: LoadRequest) -> tuple[Probe, ...]:
        """Questions to ask of the staged rows before anything is written (``target`` may not exist yet)."""

    def program(self, request: LoadRequest) -> tuple[str, ...]:
        """Statements in DuckDB's SQL that turn the target into what it must hold, run in one transaction."""
