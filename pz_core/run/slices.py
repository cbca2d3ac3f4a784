"""The part of a dataset that a run reads: bounds out of what is stored and what the project declares.

Sources: config-compile.md 5.4 to 5.7 (reduction, windows), engine.md 5.3 and 5.4, DECISIONS 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, localcontext

from msgspec import Struct
from msgspec.structs import replace

from pz_core.compile.cursors import NUMERIC_TYPES, canonical_cursor, later
from pz_core.contract.connector import CursorBounds
from pz_core.project.model import SyncConfig
from pz_core.values.durations import parse_duration

#: The word that stands for the start of the run.
NOW = "now"
#: No column of a whole-number cursor type holds more, and not every place understands a literal beyond it.
_LAST_NUMBER = Decimal(2**63 - 1)
_LAST_DAY, _LAST_INSTANT = "9999-12-31", "9999-12-31T23:59:59.999999"


class Bound(Struct, frozen=True):
    """One end of a slice: a canonical value, and whether it belongs to the slice."""

    value: str
    inclusive: bool


class Slice(Struct, frozen=True):
    """What one run reads of a dataset.

    Args:
        cursor: the column, as declared.
        type: cursor type of the bounds, ``None`` where nothing says it and there is no bound.
        floor, ceiling: ``None`` for no bound.
        caught_up: nothing can lie between the two ends.
        at_end: whether ``until`` is reached by this slice; ``None`` without ``until``.
        with_nulls: rows without a cursor belong to the slice although it has a floor.
        replay: it ends where an output has the rows already, and newer ones wait for the next run.
    """

    cursor: str
    type: str | None = None
    floor: Bound | None = None
    ceiling: Bound | None = None
    caught_up: bool = False
    at_end: bool | None = None
    with_nulls: bool = False
    replay: bool = False

    def up_to(self, upper: str, kind: str) -> Slice:
        """The slice cut where an output has the rows already; as it is if it ends before that, or begins after it.

        Args:
            upper: canonical value, which belongs to the slice.
            kind: its cursor type.
        """
        ends_before = self.ceiling is not None and not later(kind, self.ceiling.value, upper)
        begins_after = self.floor is not None and not later(kind, upper, self.floor.value)
        if self.caught_up or ends_before or begins_after:
            return self
        return replace(self, type=self.type or kind, ceiling=Bound(upper, True), at_end=False, replay=True)

    def bounds(self) -> CursorBounds:
        """The slice as a read has it. One that is caught up takes no row, but the columns still come."""
        floor, ceiling = self.floor, self.ceiling
        if self.caught_up and ceiling is not None:
            # Above and at most one and the same value: no row, whatever the connector can push.
            floor, ceiling = Bound(ceiling.value, False), Bound(ceiling.value, True)
        return CursorBounds(
            self.cursor,
            self.type,
            None if floor is None else floor.value,
            floor is not None and floor.inclusive,
            None if ceiling is None else ceiling.value,
            ceiling is None or ceiling.inclusive,
            self.with_nulls and not self.caught_up,
        )

    def high_water(self, found: str | None) -> str | None:
        """The watermark after this slice, ``None`` to leave it where it is.

        Args:
            found: the greatest value that landed.
        """
        if self.caught_up:
            return None
        if found is not None:
            return found
        return self.ceiling.value if self.ceiling is not None and self.ceiling.inclusive else None


def sql_slice(cursor: str, kind: str | None, floors: Sequence[Bound], ceilings: Sequence[Bound]) -> Slice:
    """The slice of bounds written in SQL: the loosest floor and the tightest ceiling.

    Among equal values a floor is inclusive if any is, a ceiling only if all are.
    """
    floor = _lowest(kind, sorted(floors, key=lambda bound: not bound.inclusive))
    ceiling = _lowest(kind, sorted(ceilings, key=lambda bound: bound.inclusive))
    return Slice(cursor, kind, floor, ceiling, _nothing_between(kind, floor, ceiling))


def _lowest(kind: str | None, bounds: Sequence[Bound]) -> Bound | None:
    """The lowest bound, the first one among equals."""
    best: Bound | None = None
    for bound in bounds:
        if best is None or (kind is not None and later(kind, best.value, bound.value)):
            best = bound
    return best


def _nothing_between(kind: str | None, floor: Bound | None, ceiling: Bound | None) -> bool:
    if kind is None or floor is None or ceiling is None:
        return False
    if later(kind, floor.value, ceiling.value):
        return True
    same = not later(kind, ceiling.value, floor.value)
    return same and not (floor.inclusive and ceiling.inclusive)


def yaml_slice(sync: SyncConfig, kind: str | None, stored: str | None, started_at: str) -> Slice:
    """The slice of a read that YAML declares.

    Args:
        sync: with canonical values.
        kind: cursor type, ``None`` where only the landed column will say it.
        stored: the watermark, ``None`` on a first run and under ``--full-refresh``.
        started_at: of the run, ISO in UTC; what ``until: now`` means.
    """
    cursor = sync.cursor or ""
    if sync.max_window is None or kind is None or sync.initial is None:
        floor = None if stored is None else Bound(stored, False)
        return Slice(cursor, kind, floor)
    lower = stored if stored is not None else sync.initial
    ceiling = Bound(_shifted(kind, lower, sync.max_window), True)
    at_end: bool | None = None
    if sync.until is not None:
        moving = sync.until == NOW
        end = Bound(_start(kind, started_at), False) if moving else Bound(sync.until, True)
        at_end = not later(kind, end.value, ceiling.value)
        if at_end:
            ceiling = end
    caught_up = not later(kind, ceiling.value, lower)
    return Slice(cursor, kind, Bound(lower, False), ceiling, caught_up, at_end, with_nulls=stored is None)


def _start(kind: str, started_at: str) -> str:
    made = canonical_cursor("timestamp", started_at)
    assert made is not None  # the run's own reading of the clock
    return made[:10] if kind == "date" else made


def _shifted(kind: str, value: str, width: str) -> str:
    """A canonical value moved up by a window, or the last one that there is where it would leave the type."""
    if kind in NUMERIC_TYPES:
        with localcontext() as exact:
            exact.prec = 100
            made = Decimal(value) + Decimal(width)
            return f"{made if kind == 'decimal' else min(made, _LAST_NUMBER):f}"
    step = timedelta(milliseconds=parse_duration(width) or 0)
    try:
        if kind == "date":
            return (date.fromisoformat(value) + step).isoformat()
        at = datetime.fromisoformat(value) + step
    except OverflowError:
        return _LAST_DAY if kind == "date" else _LAST_INSTANT
    return f"{at.year:04d}-{at:%m-%dT%H:%M:%S}.{at.microsecond:06d}"
