"""Ids of runs: UTC, sortable as text, unique enough for two runs in one millisecond."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta

_SHAPE = re.compile(r"(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})(\d{3})Z-[0-9a-f]{4}", re.ASCII)


def mint(now: datetime) -> str:
    """A new id, such as ``20260902T101533221Z-4c1a``.

    Args:
        now: an instant with a zone.
    """
    at = now.astimezone(UTC)
    return f"{_seconds(at)}{at.microsecond // 1000:03d}Z-{secrets.token_hex(2)}"


def _seconds(at: datetime) -> str:
    return f"{at.year:04d}{at.month:02d}{at.day:02d}T{at.hour:02d}{at.minute:02d}{at.second:02d}"


def is_run_id(name: str) -> bool:
    """Whether a directory's name is a run's id: in its shape, and of a day that the calendar has."""
    return instant_of(name) is not None


def instant_of(run_id: str) -> datetime | None:
    """When a run was started, by its id; ``None`` if the id says no instant."""
    match = _SHAPE.fullmatch(run_id)
    if match is None:
        return None
    year, month, day, hour, minute, second, milli = (int(part) for part in match.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC) + timedelta(milliseconds=milli)
    except ValueError:
        return None


def stamp(at: datetime) -> str:
    """An instant as artifacts and events write it: UTC, milliseconds, ``Z``."""
    utc = at.astimezone(UTC)
    day = f"{utc.year:04d}-{utc.month:02d}-{utc.day:02d}"
    return f"{day}T{utc.hour:02d}:{utc.minute:02d}:{utc.second:02d}.{utc.microsecond // 1000:03d}Z"


def now_stamp() -> str:
    """The present instant, as :func:`stamp` writes it."""
    return stamp(datetime.now(UTC))


def in_milliseconds(text: str) -> str:
    """An ISO instant with any precision as :func:`stamp` writes it; a text that is no instant stays as it is."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return stamp(at if at.tzinfo is not None else at.replace(tzinfo=UTC))
