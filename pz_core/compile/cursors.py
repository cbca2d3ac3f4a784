"""Cursor values and window widths as written, brought to the one canonical text that is stored, hashed and compared."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal

from pz_core.values import CURSOR_TYPES, is_type_word
from pz_core.values.cursors import CALENDAR_TYPES as CALENDAR_TYPES
from pz_core.values.cursors import NUMERIC_TYPES as NUMERIC_TYPES
from pz_core.values.cursors import later as later
from pz_core.values.durations import parse_duration

_INTEGER = re.compile(r"([+-]?)0*(\d+)", re.ASCII)
_DECIMAL = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INSTANT = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?Z?", re.ASCII)
_WIDTH = re.compile(r"0*([1-9]\d*)", re.ASCII)
_DAY_MS = 86_400_000


def cursor_family(word: object) -> str | None:
    """The cursor type that a word of ``columns:`` belongs to (``decimal(10,2)`` is a ``decimal``), if it is one."""
    if not isinstance(word, str):
        return None
    if word in CURSOR_TYPES:
        return word
    return "decimal" if word.startswith("decimal(") and is_type_word(word) else None


def canonical_cursor(type_word: str, text: str) -> str | None:
    """The canonical text of a cursor value, ``None`` if the text is no value of that type.

    Whole numbers: digits with an optional minus. ``decimal``: point notation, scale kept. ``date``: ``YYYY-MM-DD``.
    ``timestamp`` and ``timestamptz``: ``YYYY-MM-DDTHH:MM:SS.ffffff`` (in UTC for the latter); a bare date, whole
    seconds and one trailing ``Z`` behind a time are read too.

    Args:
        type_word: ``int``, ``bigint``, ``decimal``, ``date``, ``timestamp`` or ``timestamptz``.
        text: the value as written.
    """
    if type_word in ("int", "bigint"):
        return _integer(text)
    if type_word == "decimal":
        return _decimal(text)
    if type_word == "date":
        return _date(text)
    if type_word in ("timestamp", "timestamptz"):
        return _instant(text)
    return None


def _integer(text: str) -> str | None:
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    return f"-{match[2]}" if match[1] == "-" and match[2] != "0" else match[2]


def _decimal(text: str) -> str | None:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    whole = match[2].lstrip("0") or "0"
    made = whole if match[3] is None else f"{whole}.{match[3]}"
    return f"-{made}" if match[1] == "-" and Decimal(made) != 0 else made


def _date(text: str) -> str | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return None


def _instant(text: str) -> str | None:
    if _DATE.fullmatch(text):
        day = _date(text)
        return None if day is None else f"{day}T00:00:00.000000"
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    made = f"{match[1]}T{match[2]}.{(match[3] or '').ljust(6, '0')}"
    try:
        datetime.fromisoformat(made)
    except ValueError:
        return None
    return made


def canonical_width(type_word: str, text: str) -> str | None:
    """The canonical text of a ``max_window``, ``None`` if it does not fit the cursor's type.

    Args:
        type_word: as for :func:`canonical_cursor`.
        text: a positive whole number for numeric cursors, a positive duration for the others (whole days for ``date``).
    """
    if type_word in NUMERIC_TYPES:
        match = _WIDTH.fullmatch(text)
        return match[1] if match else None
    milliseconds = parse_duration(text)
    if not milliseconds or (type_word == "date" and milliseconds % _DAY_MS):
        return None
    return text


def width_rule(type_word: str) -> str:
    """What a ``max_window`` must be for a cursor type, for messages."""
    if type_word in NUMERIC_TYPES:
        return "a positive whole number such as 10000"
    return "a duration of whole days such as 7d" if type_word == "date" else "a positive duration such as 36h or 7d"


def value_rule(type_word: str) -> str:
    """What a cursor value must look like, for messages."""
    return {
        "int": "a whole number",
        "bigint": "a whole number",
        "decimal": "a number in point notation such as 12.50",
        "date": "a date such as 2026-01-01",
    }.get(type_word, "a date or a time such as 2026-01-01T00:00:00Z")
