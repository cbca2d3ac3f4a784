"""Change capture: what a connector yields of a read with ``sync: {mode: cdc}``, and what may be asked of it besides.

Such a read is a feed (:class:`~pz_core.contract.resuming.FeedSource`): it goes on from the token of the run before, in
one partition. Without a token it yields all rows as they are at one moment, and the token is that moment. With one it
yields what changed since, in the order of the place. Every row has the columns of :data:`ENVELOPE` first, then the
dataset's own. An engine keeps the last change of each key: rows to write, and keys to delete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

if TYPE_CHECKING:
    from pz_core.contract.connector import ReadSpec

#: What happened to a row (one of the four below), its place in the order of the read, where it stands in the place's
#: own log, and when it was committed.
OP, ORDER, POSITION, CHANGED_AT = "_pz_op", "_pz_order", "_pz_lsn", "_pz_changed_at"
ENVELOPE = (OP, ORDER, POSITION, CHANGED_AT)
#: A row of the first read, which takes all rows; an added, a changed, a deleted one. Of a deleted one only the keys
#: count. A changed key is a deleted old one and a changed new one.
SNAPSHOT, INSERT, UPDATE, DELETE = "snapshot", "insert", "update", "delete"
#: Column of a target in which ``on_delete: 'soft'`` says when a row was found deleted; NULL for a row that is there.
DELETED_AT = "_pz_deleted_at"
#: Column of a batch that is true for keys to delete; no target has it.
GONE = "_pz_gone"


class CaptureSpec(Struct, frozen=True):
    """How a dataset's changes are captured.

    Args:
        project: name of the project; with connection and entity it names what the place keeps for it.
        slot: the name given in ``sync:``, ``None`` for the connector's own.
    """

    project: str
    slot: str | None = None


@runtime_checkable
class CaptureSource(Protocol):
    """A source that yields changes where ``spec.capture`` is set."""

    def key_columns(self, spec: ReadSpec) -> tuple[str, ...]:
        """Columns that tell one row from another, in changes and deletes alike; asked after all batches of a read."""


class CaptureStatus(Struct, frozen=True):
    """What a place keeps for one captured dataset.

    Args:
        position: what it is called there, such as the name of a slot.
        confirmed: how far the place knows that changes were taken, ``None`` if it keeps nothing.
        stored: the same by the token that is stored, ``None`` without one.
        lag_bytes: of its log, written since the stored (else the confirmed) place.
        retained_bytes: of its log, kept for this dataset.
        faults: why the next run would fail, each with what to do; none if all is well.
        notes: what else is worth telling.
    """

    position: str
    confirmed: str | None = None
    stored: str | None = None
    lag_bytes: int | None = None
    retained_bytes: int | None = None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@runtime_checkable
class CaptureAdmin(Protocol):
    """A connector that can tell and remove what its place keeps for a captured dataset."""

    def capture_status(self, spec: ReadSpec) -> CaptureStatus:
        """How it stands; ``spec.token`` is the stored token.

        Raises:
            ConnectorError: if the place cannot be asked.
        """

    def drop_capture(self, spec: ReadSpec, *, dry_run: bool) -> tuple[str, ...]:
        """Remove what the place keeps, or tell it only.

        Returns:
            A line for each thing that is removed; none if there is nothing.

        Raises:
            ConnectorError: if it cannot be removed; what was not is still there.
        """
