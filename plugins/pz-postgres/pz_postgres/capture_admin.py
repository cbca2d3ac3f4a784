"""How a captured dataset stands on its server, and how its slot and publication are removed."""

from __future__ import annotations

from pz_core.contract.capture import CaptureStatus
from pz_core.contract.connector import ConnectorError, ReadSpec
from pz_core.contract.resuming import TokenRefused
from pz_core.values import quote_identifier
from pz_postgres.capture_position import Position, position_fault
from pz_postgres.capture_slot import (
    CaptureNames,
    captured_table,
    drop_slot,
    publication_fault,
    publication_identity,
    slot_state,
)
from pz_postgres.capture_wire import position_of
from pz_postgres.control import ask, connected, statement_error
from pz_postgres.settings import Settings

_ANEW = "pz run --full-refresh reads all rows and goes on from there"


def capture_status(settings: Settings, spec: ReadSpec) -> CaptureStatus:
    """What the server says of the slot and the publication, and whether the next run can go on.

    Raises:
        ConnectorError: if the server cannot be asked.
    """
    names = CaptureNames.of(settings, spec)
    faults: list[str] = []
    notes: list[str] = []
    stored: Position | None = None
    with connected(settings) as held:
        written = str(ask(held, "SELECT pg_catalog.pg_current_wal_insert_lsn()::text", (), names.subject)[0][0])
        state = slot_state(held, names)
        try:
            table = captured_table(held, names)
            wrong = publication_fault(held, names, table)
            if wrong not in (None, "missing"):
                faults.append(f"publication {names.publication} {wrong}; pz cdc drop, then run again")
            if spec.token is not None:
                stored = Position.of(spec.token, names.subject)
                fault = position_fault(state, stored, names, written)
                if fault is None and publication_identity(held, names, table) != stored.publication:
                    fault = f"publication {names.publication} was removed or made anew"
                if fault is not None:
                    faults.append(f"the stored place cannot be gone on from: {fault}; {_ANEW}")
        except TokenRefused as error:
            faults.append(f"{error.message}; {_ANEW}")
        except ConnectorError as error:
            faults.append(error.message if error.hint is None else f"{error.message}: {error.hint}")
    if spec.token is None:
        notes.append("no place in the log is stored: the next run reads all rows")
        if state is not None and state.lost:
            notes.append(f"slot {names.slot} was invalidated; the next run makes it anew")
    if state is not None and state.unfit is not None and spec.token is None:
        faults.append(f"{state.unfit}: choose another name with slot: under sync:, or drop that slot")
    if state is not None and state.active:
        notes.append(f"slot {names.slot} is being read now")
    since = stored.lsn if stored is not None else None if state is None else state.confirmed
    lag = None if since is None else max(0, position_of(written) - position_of(since))
    return CaptureStatus(
        f"slot {names.slot}" if state is not None else f"slot {names.slot} (not there)",
        None if state is None else state.confirmed,
        None if stored is None else stored.lsn,
        lag,
        None if state is None else state.retained,
        tuple(faults),
        tuple(notes),
    )


def drop_capture(settings: Settings, spec: ReadSpec, *, dry_run: bool) -> tuple[str, ...]:
    """Remove the slot, then the publication if it is pz's own.

    Raises:
        ConnectorError: what the server said.
    """
    import psycopg

    names = CaptureNames.of(settings, spec)
    made: list[str] = []
    with connected(settings) as held:
        if (state := slot_state(held, names)) is not None:
            if state.unfit is not None:
                raise ConnectorError(
                    f"{names.subject}: {state.unfit}, so it is not removed",
                    code="PZ0338",
                    hint="choose another name with slot: under sync:, or drop the slot by hand",
                )
            made.append(f"replication slot {names.slot}")
            if not dry_run:
                drop_slot(held, names)
        there = ask(
            held, "SELECT FROM pg_catalog.pg_publication WHERE pubname = %s", (names.publication,), names.subject
        )
        if names.own and there:
            made.append(f"publication {names.publication}")
            if not dry_run:
                try:
                    held.execute(f"DROP PUBLICATION IF EXISTS {quote_identifier(names.publication)}".encode())
                except psycopg.Error as error:
                    raise statement_error(error, names.subject) from error
    return tuple(made)
