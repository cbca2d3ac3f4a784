"""Calendar tokens in the path of a read: which folders a window of time needs.

Source: cli-connectors.md 3.0 and 3.19 (tokens run from the year down; both edges of a window are covered).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pz_core.contract.connector import CursorBounds

_TOKEN = re.compile(r"\{(yyyy|yy|MM|dd|HH|mm)\}")
#: Token -> its level, from the year down.
_LEVELS = {"yyyy": 0, "yy": 0, "MM": 1, "dd": 2, "HH": 3, "mm": 4}
_HOUR = 3
#: More paths than this are written with wildcards for the finest token: a listing is cheaper than so many questions.
_MOST = 1_000


def has_calendar_tokens(path: str) -> bool:
    """Whether a path holds a calendar token; ``{key}`` and other braces are none."""
    return _TOKEN.search(path) is not None


def covering_paths(path: str, bounds: CursorBounds | None) -> tuple[str, ...]:
    """The paths that hold every row of a window, the tokens replaced by dates in UTC.

    Without a floor and a ceiling the one path has a wildcard for each token. Rows outside of the window may lie in the
    same files: the caller still filters.

    Args:
        path: with tokens, and wildcards if the user wrote some.
        bounds: of the read, on a ``date``, ``timestamp`` or ``timestamptz``.

    Returns:
        At least one path, in the order of time, each once.
    """
    edges = _edges(bounds)
    finest = max((_LEVELS[token] for token in _TOKEN.findall(path)), default=-1)
    while edges is not None and finest >= 0:
        units = _units(*edges, finest)
        if units is not None:
            return tuple(dict.fromkeys(_written(path, unit, finest) for unit in units))
        finest -= 1
    return (_written(path, None, -1),)


def _written(path: str, unit: datetime | None, finest: int) -> str:
    """A path of one unit; tokens finer than it, and all without one, become digits of any kind."""

    def token(match: re.Match[str]) -> str:
        name = match[1]
        if unit is None or _LEVELS[name] > finest:
            return "[0-9]" * len(name)
        number = (unit.year, unit.month, unit.day, unit.hour, unit.minute)[_LEVELS[name]]
        return f"{number:04d}"[-len(name) :]

    return _TOKEN.sub(token, path)


def _edges(bounds: CursorBounds | None) -> tuple[datetime, datetime] | None:
    if bounds is None or bounds.lower is None or bounds.upper is None:
        return None
    try:
        return _moment(bounds.lower), _moment(bounds.upper)
    except ValueError:  # an infinity, or a year that a calendar of four digits has not
        return None


def _moment(text: str) -> datetime:
    made = datetime.fromisoformat(text)
    return made.astimezone(UTC).replace(tzinfo=None) if made.tzinfo is not None else made


def _units(lower: datetime, upper: datetime, level: int) -> list[datetime] | None:
    """The first moment of each unit that a window touches, ``None`` if there are too many."""
    made: list[datetime] = []
    at: datetime | None = _floor(lower, level)
    while at is not None and (at <= upper or not made):
        made.append(at)
        if len(made) > _MOST:
            return None
        at = _following(at, level)
    return made


def _floor(moment: datetime, level: int) -> datetime:
    month = moment.month if level >= 1 else 1
    day = moment.day if level >= 2 else 1
    hour = moment.hour if level >= _HOUR else 0
    return datetime(moment.year, month, day, hour, moment.minute if level > _HOUR else 0)


def _following(moment: datetime, level: int) -> datetime | None:
    """The unit after one, ``None`` behind the last year that can be written."""
    try:
        if level == 0:
            return moment.replace(year=moment.year + 1)
        if level == 1:
            return moment.replace(year=moment.year + moment.month // 12, month=moment.month % 12 + 1)
        step = {2: timedelta(days=1), _HOUR: timedelta(hours=1)}.get(level, timedelta(minutes=1))
        return moment + step
    except (ValueError, OverflowError):
        return None
