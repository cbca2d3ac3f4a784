"""The ledger of a target: how far each output has the rows of each incremental dataset, stored with the rows.

With ``duplicates: 'refuse'`` a batch and its entries are written in one transaction, so that a run that comes after a
crash knows what the target has, whatever became of the project's own state. An entry says: *this output has every row
of this dataset up to* ``upper``. All else follows: a batch that ends at or below ``upper`` is skipped, one that begins
at or above it is written, and one that does both is refused (PZ0520). That never happens in order, because the run
first reads the part that the target has (see ``run/ledger.py``).

**What a connector does to take part.** It declares ``Capabilities.ledger`` and says where the table is; it writes no
SQL of the ledger's. The table is :data:`LEDGER_TABLE` in the database and the schema of the target, so that it is
backed up, restored and dropped with the rows that it speaks of:

* natively, :attr:`~pz_core.contract.connector.NativeTarget.ledger` is the table's unquoted name, in the catalog and the
  schema of the target;
* in batches, the session is a :class:`LedgerSession`: a SQL write session with the table's quoted name in ``ledger``.
  Rows of what :meth:`~pz_core.contract.connector.SqlWriteSession.execute` yields are read by position.

Before any node starts, the engine makes the table and reads it: natively in a transaction of its own; in batches by a
session that is begun with one column, stages no row, executes the statements below and commits. Then, with the batch,
it reads the entries again, writes them before the rows, and looks whether they are its own: of two runs that meet, one
is told, and writes nothing.

The statements are DuckDB's SQL, and are translated where the target speaks another dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from pz_core.contract.connector import SqlWriteSession
from pz_core.errors import PzError
from pz_core.values import quote_identifier, quote_literal
from pz_core.values.cursors import later, same_family

if TYPE_CHECKING:
    from pz_core.contract.engine import Control, DrainTask

#: Name of the table, in the schema of the target.
LEDGER_TABLE = "_pz_ledger"

#: Column -> type. ``dataset`` is empty for a batch that comes from no incremental read.
_COLUMNS = {
    "project": "VARCHAR",
    "dataset": "VARCHAR",
    "sink": "VARCHAR",
    "cursor_name": "VARCHAR",
    "cursor_type": "VARCHAR",
    "upper_value": "VARCHAR",
    "run_id": "VARCHAR",
    "row_count": "BIGINT",
    "written_at": "VARCHAR",
}
_KEY = ("project", "dataset", "sink")
_READ = ("dataset", "cursor_name", "cursor_type", "upper_value", "run_id", "row_count")

#: Runs a statement and gives its rows.
Ask = Callable[[str], Sequence[Sequence[Any]]]


@runtime_checkable
class LedgerSession(SqlWriteSession, Protocol):
    """A SQL write session whose database keeps a ledger: ``ledger`` is the table's quoted name in :meth:`execute`."""

    ledger: str


class LedgerEntry(Struct, frozen=True):
    """What an output has of a dataset: every row up to ``upper``, the last of them written by ``run_id``."""

    dataset: str
    cursor: str
    type: str
    upper: str
    run_id: str
    rows: int = 0


class LedgerMark(Struct, frozen=True):
    """What a batch has of a dataset: the rows above ``base`` and up to ``upper``.

    Args:
        dataset: ``connection.entity``.
        cursor, type: of the incremental read.
        base: the watermark that it was read from, ``None`` if from the beginning.
        upper: the watermark after it, ``None`` if nothing of it landed that has a value in the cursor.
        nulls: rows that landed without a value in the cursor.
    """

    dataset: str
    cursor: str
    type: str | None = None
    base: str | None = None
    upper: str | None = None
    nulls: int = 0


class LedgerClaim(Struct, frozen=True):
    """What a load asks of the ledger.

    Args:
        project: name of the project; two projects may load one database.
        sink: ``connection.entity`` of the output.
        marks: one for every incremental dataset above the output; none before the run has read them.
        run_id: of this run.
        runs: this run and those that it carries on: what one of them has written is not written again.
        written_at: ISO text in UTC.
        anew: the datasets are read from the beginning (``--full-refresh``): a target that somebody has emptied for that
            has no rows of an earlier run then, whatever its ledger says.
    """

    project: str
    sink: str
    marks: tuple[LedgerMark, ...] = ()
    run_id: str = ""
    runs: frozenset[str] = frozenset()
    written_at: str = ""
    anew: bool = False

    def live(self, state: LedgerState) -> tuple[LedgerEntry, ...]:
        """The entries that count: none of a target that was dropped, or emptied to be filled from the beginning."""
        gone = state.target == "missing" or (self.anew and state.target == "empty")
        return () if gone else state.entries


class LedgerState(Struct, frozen=True):
    """The entries of one output, and what there is of its target."""

    entries: tuple[LedgerEntry, ...] = ()
    target: Literal["missing", "empty", "filled"] = "filled"


@runtime_checkable
class LedgerEngine(Protocol):
    """An engine that can keep ledgers. It then honours :attr:`~pz_core.contract.engine.DrainTask.ledger`, too."""

    def open_ledger(self, task: DrainTask, control: Control) -> LedgerState:
        """Make the ledger of a task's target if there is none, and read what it says of the task's output.

        Raises:
            PzError: PZ0324 if the target has no place for it, and what the connector says.
        """


# --- statements ------------------------------------------------------------------------------------------------------


def create_ledger(table: str) -> str:
    """The statement that makes the table (a quoted name) if it is not there."""
    fields = ", ".join(f"{quote_identifier(name)} {kind} NOT NULL" for name, kind in _COLUMNS.items())
    return f"CREATE TABLE IF NOT EXISTS {table} ({fields}, PRIMARY KEY ({_listed(_KEY)}))"


def read_ledger(table: str, claim: LedgerClaim, ask: Ask) -> tuple[LedgerEntry, ...]:
    """The entries of a claim's output.

    Args:
        table: quoted name.
        claim: whose entries.
        ask: runs a statement and gives its rows.
    """
    where = f"{_same('project', claim.project)} AND {_same('sink', claim.sink)}"
    rows = ask(f"SELECT {_listed(_READ)} FROM {table} WHERE {where}")
    return tuple(LedgerEntry(str(a), str(b), str(c), str(d), str(e), int(f)) for a, b, c, d, e, f in rows)


def look_at_target(target: str, ask: Ask) -> Literal["empty", "filled"]:
    """Whether a target table that exists (a quoted name) has a row."""
    return "filled" if ask(f"SELECT 1 AS {quote_identifier('pz_one')} FROM {target} LIMIT 1") else "empty"


def entries_of(claim: LedgerClaim, rows: int) -> tuple[LedgerEntry, ...]:
    """The entries that a batch leaves, of so many rows."""
    made = tuple(
        LedgerEntry(mark.dataset, mark.cursor, mark.type or "", mark.upper, claim.run_id, rows)
        for mark in claim.marks
        if mark.upper is not None
    )
    return made or ((LedgerEntry("", "", "", "", claim.run_id, rows),) if rows else ())


def record(table: str, claim: LedgerClaim, before: Sequence[LedgerEntry], rows: int) -> tuple[str, ...]:
    """The statements that write a batch's entries over those that were read, and over no others."""
    there = {entry.dataset: entry for entry in before}
    made: list[str] = []
    for entry in entries_of(claim, rows):
        values = {
            "project": quote_literal(claim.project),
            "dataset": quote_literal(entry.dataset),
            "sink": quote_literal(claim.sink),
            "cursor_name": quote_literal(entry.cursor),
            "cursor_type": quote_literal(entry.type),
            "upper_value": quote_literal(entry.upper),
            "run_id": quote_literal(entry.run_id),
            "row_count": str(entry.rows),
            "written_at": quote_literal(claim.written_at),
        }
        old = there.get(entry.dataset)
        if old is None:
            made.append(f"INSERT INTO {table} ({_listed(values)}) VALUES ({', '.join(values.values())})")
            continue
        sets = ", ".join(f"{quote_identifier(k)} = {v}" for k, v in values.items() if k not in _KEY)
        key = " AND ".join(f"{quote_identifier(name)} = {values[name]}" for name in _KEY)
        unchanged = f"{_same('run_id', old.run_id)} AND {_same('upper_value', old.upper)}"
        made.append(f"UPDATE {table} SET {sets} WHERE {key} AND {unchanged}")
    return tuple(made)


def _listed(names: Sequence[str] | dict[str, str]) -> str:
    return ", ".join(quote_identifier(name) for name in names)


def _same(column: str, value: str) -> str:
    return f"{quote_identifier(column)} = {quote_literal(value)}"


# --- judgement -------------------------------------------------------------------------------------------------------


def delivered_by(claim: LedgerClaim, state: LedgerState) -> str | None:
    """The run that has written a batch before, ``None`` if the batch is to be written.

    Raises:
        PzError: PZ0520 if the target has a part of the batch, PZ0505 if its entry goes by another cursor, or if no row
            has a value in it.
    """
    entries = {entry.dataset: entry for entry in claim.live(state)}
    marks = [mark for mark in claim.marks if mark.upper is not None]
    if not marks:
        _refuse_untold(claim)
        own = entries.get("")
        return own.run_id if own is not None and own.run_id in claim.runs else None
    there: list[LedgerEntry] = []
    parts = False
    for mark in marks:
        entry = entries.get(mark.dataset)
        if entry is None:
            continue
        refuse_other_cursor(claim.sink, mark, entry)
        assert mark.upper is not None and mark.type is not None  # something of it landed
        if not later(mark.type, mark.upper, entry.upper):
            there.append(entry)
        elif mark.base is None or later(mark.type, entry.upper, mark.base):
            parts = True
    if parts or (there and len(there) < len(marks)):
        raise _partly(claim.sink)
    return there[-1].run_id if there else None


def _refuse_untold(claim: LedgerClaim) -> None:
    """PZ0505 for rows without a cursor and none with one: the next run would read them again as if they were new."""
    for mark in claim.marks:
        if mark.nulls and mark.base is None:
            rows = "1 row" if mark.nulls == 1 else f"{mark.nulls} rows"
            raise PzError(
                "PZ0505",
                f"{claim.sink}: {rows} of {mark.dataset} came without a value in cursor '{mark.cursor}' and none with "
                "one, so that duplicates: 'refuse' cannot tell them from the rows of the next run; nothing was written",
                hint="leave such rows out (where the cursor is not null), or fill the cursor at the source; once one "
                "row has a value, those without are loaded with it",
            )


def refuse_other_cursor(sink: str, mark: LedgerMark, entry: LedgerEntry) -> None:
    """PZ0505 where an entry and a read do not go by one cursor, so that nothing tells which rows are in the target."""
    same = mark.cursor.casefold() == entry.cursor.casefold()
    if same and (mark.type is None or same_family(mark.type, entry.type)):
        return
    raise PzError(
        "PZ0505",
        f"{sink}: its ledger goes by cursor '{entry.cursor}' ({entry.type}) of {mark.dataset}, and the read by cursor "
        f"'{mark.cursor}'{f' ({mark.type})' if mark.type else ''}: which rows the target has cannot be told",
        hint=f"read by that cursor again, or delete the entries of this output from {LEDGER_TABLE} in the target's "
        "schema once you know that it has none of the rows",
    )


def refuse_lost_race(claim: LedgerClaim, now: Sequence[LedgerEntry], rows: int) -> None:
    """PZ0520 if the entries that were just written are not those that stand in the ledger."""
    there = {(entry.dataset, entry.upper, entry.run_id) for entry in now}
    if any((entry.dataset, entry.upper, entry.run_id) not in there for entry in entries_of(claim, rows)):
        raise PzError(
            "PZ0520",
            f"{claim.sink}: another run wrote to this output at the same time, so this one has written nothing",
            hint="run again: what the other one has written is skipped then",
        )


def _partly(sink: str) -> PzError:
    return PzError(
        "PZ0520",
        f"{sink}: the target has a part of this batch, and writing it would repeat those rows; nothing was written",
        hint="use pz run, not pz retry: it reads first what the target has and skips it, then goes on",
    )
