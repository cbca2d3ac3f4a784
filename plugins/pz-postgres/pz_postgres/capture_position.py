"""The place up to which changes were taken: what a token holds, and whether reading can go on from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pz_core.contract.resuming import TokenRefused
from pz_postgres.capture_slot import CaptureNames, SlotState
from pz_postgres.capture_wire import position_of
from pz_postgres.control import ask

if TYPE_CHECKING:
    import psycopg

_ADDED = """
SELECT a.attname::text, a.atthasdef OR a.atthasmissing OR a.attidentity <> '' OR a.attgenerated <> '' OR a.attnotnull
FROM pg_catalog.pg_attribute a WHERE a.attrelid = %s::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped
"""


class Position(Struct, frozen=True):
    """What a token holds: how far changes were taken, and the table as it was then.

    Args:
        slot: that it counts for.
        lsn: place in the log: every commit before it was taken.
        table: oid of the table.
        publication: identity of the publication and of the table's place in it.
        columns: names and types, in order.
    """

    slot: str
    lsn: str
    table: int
    publication: str
    columns: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, text: str, subject: str) -> Position:
        """From a token.

        Raises:
            TokenRefused: for one that this connector did not make.
        """
        try:
            found = json.loads(text)
            columns = tuple((str(name), str(kind)) for name, kind in found["columns"])
            position_of(found["lsn"])
            return cls(str(found["slot"]), str(found["lsn"]), int(found["table"]), str(found["publication"]), columns)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TokenRefused(subject, "it is none of a change capture", cause=error) from None

    def text(self) -> str:
        """As a token."""
        return json.dumps(
            {
                "v": 1,
                "slot": self.slot,
                "lsn": self.lsn,
                "table": self.table,
                "publication": self.publication,
                "columns": self.columns,
            },
            separators=(",", ":"),
            ensure_ascii=False,
        )


def position_fault(state: SlotState | None, stored: Position, names: CaptureNames, flushed: str) -> str | None:
    """Why reading cannot go on from a stored place, ``None`` if it can.

    Args:
        state: of the slot.
        stored: the place.
        names: of the dataset.
        flushed: how far the server's log has been written.
    """
    if stored.slot != names.slot:
        return f"it counts for slot {stored.slot}, and the dataset is captured through slot {names.slot} now"
    if state is None:
        return f"slot {names.slot} is gone"
    if state.unfit is not None:
        return state.unfit
    if state.lost:
        return f"slot {names.slot} was invalidated: the server has removed log that was not read yet"
    if state.confirmed is not None and position_of(state.confirmed) > position_of(stored.lsn):
        return f"slot {names.slot} stands at {state.confirmed}, behind the stored place: what lies between is gone"
    if position_of(stored.lsn) > position_of(flushed):
        return "it lies ahead of the server's log: the server was restored from a copy, or is another one"
    return None


def shape_fault(
    held: psycopg.Connection[Any], stored: Position, oid: int, columns: tuple[tuple[str, str], ...]
) -> str | None:
    """Why the table as it is now cannot be read on from a stored place; a column that may be NULL may be new."""
    if stored.table != oid:
        return "the table was dropped and made anew"
    was, now = dict(stored.columns), dict(columns)
    gone = sorted(was.keys() - now.keys())
    if gone:
        return f"columns are gone or have another name: {', '.join(gone)}"
    changed = sorted(name for name in was if was[name] != now[name])
    if changed:
        return f"columns have another type: {', '.join(changed)}"
    rows = ask(held, _ADDED, (oid,), "the table")
    filled = sorted(str(name) for name, is_filled in rows if is_filled and name in now and name not in was)
    if filled:
        return f"columns were added whose values in older rows stand in no log: {', '.join(filled)}"
    return None
