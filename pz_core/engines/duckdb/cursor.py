"""The cursor of an incremental read in staging: rows outside the slice go, and the greatest value is told.

Sources: engine.md 5.2 and 5.3, config-compile.md 5.6, DECISIONS 4 (NULL cursors) and 10 (floors that are not pushed).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from pz_core.contract.connector import CursorBounds
from pz_core.contract.engine import CursorFound, LandTask
from pz_core.engines.duckdb.session import Work
from pz_core.errors import PzError, Where
from pz_core.values import CURSOR_TYPES, Column, quote_identifier, quote_literal

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
#: Types that compare with a bound exactly; which of them a cursor may have is judged once the rows are trimmed.
_COMPARABLE = re.compile(
    r"U?(?:TINY|SMALL|BIG|HUGE)?INT|U?INTEGER|DECIMAL\(.*\)|DATE|TIMESTAMP(?:_S|_MS|_NS| WITH TIME ZONE)?"
)
#: Types of a landed column whose every value the canonical text of a cursor type holds.
_WORDS = {
    "INTEGER": "int",
    "BIGINT": "bigint",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
}
_EPOCH = datetime(1970, 1, 1)


def trim(work: Work, target: str, columns: tuple[Column, ...], task: LandTask, subject: str) -> int:
    """Delete landed rows outside the slice, and say how many.

    A connector that honoured the bounds leaves nothing to delete, and looking costs one pass over one column.

    Raises:
        PzError: PZ0505 if the cursor cannot be compared with a bound.
    """
    if task.hold:
        return work.count(f"DELETE FROM {target}")
    bounds = task.slice or task.read.bounds
    if bounds is None or (bounds.lower is None and bounds.upper is None):
        return 0
    column = _column(columns, bounds)
    if column is None or not _COMPARABLE.fullmatch(column.type):
        raise _unfit(column, bounds, subject, task)
    name = quote_identifier(column.name)
    outside: list[str] = []
    if bounds.lower is not None:
        outside.append(f"{name} {'<' if bounds.lower_inclusive else '<='} {_bound(bounds.lower, bounds.type, column)}")
        if task.slice is not None and not bounds.with_nulls:
            outside.append(f"{name} IS NULL")
    if bounds.upper is not None:
        outside.append(f"{name} {'>' if bounds.upper_inclusive else '>='} {_bound(bounds.upper, bounds.type, column)}")
    return work.count(f"DELETE FROM {target} WHERE {' OR '.join(outside)}")


def _bound(text: str, word: str | None, column: Column) -> str:
    """A bound as SQL. Numbers stay literals, so that a narrower column cannot round them."""
    if _NUMBER.fullmatch(text):
        return text
    kinds = {"date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE"}
    return f"CAST({quote_literal(text)} AS {kinds.get(word or '', column.type)})"


def find_cursor(
    work: Work, target: str, columns: tuple[Column, ...], task: LandTask, subject: str
) -> CursorFound | None:
    """What the cursor column of the trimmed relation holds; ``None`` for a read without a cursor.

    Raises:
        PzError: PZ0505 if the column did not land, or landed as what no cursor can be.
    """
    if task.slice is None:
        return None
    column = _column(columns, task.slice)
    word = None if column is None else "decimal" if column.type.startswith("DECIMAL(") else _WORDS.get(column.type)
    if column is None or word is None:
        raise _unfit(column, task.slice, subject, task)
    name = quote_identifier(column.name)
    if word in ("timestamp", "timestamptz"):
        # An integer says it exactly, whatever the session makes of a zone.
        high = f"CASE WHEN isfinite(max({name})) THEN CAST(epoch_us(max({name})) AS VARCHAR) ELSE 'infinity' END"
    else:
        high = f"CAST(max({name}) AS VARCHAR)"
    row = work.run(
        f"SELECT CASE WHEN max({name}) IS NOT NULL THEN {high} END, count(*) - count({name}) FROM {target}"
    ).fetchone()
    assert row is not None
    text = None if row[0] is None else _canonical(word, str(row[0]))
    if row[0] is not None and text is None:
        raise PzError(
            "PZ0505",
            f"{subject}: the greatest value of cursor '{column.name}' ({column.type}) is no day between the years 1 "
            "and 9999, so no later row could be above it",
            where=Where(node=task.node.name),
            hint="leave such rows out at the source, or choose another column",
        )
    return CursorFound(word, text, int(row[1]), column.type)


def _canonical(word: str, text: str) -> str | None:
    """Canonical text of a value; ``None`` for an instant or a day that the calendar of four-digit years has not."""
    if word == "date":
        return text if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) else None
    if word not in ("timestamp", "timestamptz"):
        return text
    try:
        at = _EPOCH + timedelta(microseconds=int(text))
    except (ValueError, OverflowError):
        return None
    return f"{at.year:04d}-{at:%m-%dT%H:%M:%S}.{at.microsecond:06d}"


def _column(columns: tuple[Column, ...], bounds: CursorBounds) -> Column | None:
    return next((c for c in columns if c.name.casefold() == bounds.cursor.casefold()), None)


def _unfit(column: Column | None, bounds: CursorBounds, subject: str, task: LandTask) -> PzError:
    landed = "did not land" if column is None else f"landed as {column.type}"
    return PzError(
        "PZ0505",
        f"{subject}: cursor '{bounds.cursor}' {landed}; a cursor can be {', '.join(CURSOR_TYPES)}",
        where=Where(node=task.node.name),
        hint="declare the cursor in columns: with one of these types, or choose another column",
    )
