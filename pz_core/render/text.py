"""Text that is safe to print, and numbers that read the same under every locale."""

from __future__ import annotations

import re

#: Everything that could steer a terminal: C0 and C1 controls, and the marks that turn the direction of writing.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ESCAPES = re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[@-Z\\\\-_]")
_UNITS = ("B", "KB", "MB", "GB", "TB")


def clean(text: str) -> str:
    """One line of text without anything that a terminal would obey; a tab becomes a space."""
    return _UNSAFE.sub("", _ESCAPES.sub("", text).replace("\t", " "))


def clean_lines(text: str) -> list[str]:
    """The lines of a text, each as :func:`clean` leaves it; empty ones are dropped."""
    return [line for line in (clean(part).rstrip() for part in text.splitlines()) if line.strip()]


def count(number: int) -> str:
    """``1234567`` as ``1,234,567``, whatever the locale."""
    return f"{number:,}"


def plural(number: int, word: str) -> str:
    """``1 row``, ``2 rows``; the number as :func:`count` writes it."""
    return f"{count(number)} {word}" if number == 1 else f"{count(number)} {word}s"


def size(number: int) -> str:
    """Bytes with the largest fitting unit and at most one decimal: ``512 B``, ``1.5 MB``."""
    value = float(number)
    unit = 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    if unit == 0:
        return f"{number} B"
    if value >= 1023.95 and unit < len(_UNITS) - 1:
        value, unit = 1.0, unit + 1  # 1023.95 KB would be shown as 1024 KB
    return f"{value:.1f}".removesuffix(".0") + f" {_UNITS[unit]}"


def elapsed(ms: int) -> str:
    """A time for people: ``37ms``, ``4.2s``, ``3m 05s``, ``2h 07m``."""
    if ms < 1_000:
        return f"{ms}ms"
    if ms < 60_000:
        return f"{ms // 100 / 10:.1f}s"
    seconds = ms // 1_000
    if seconds < 3_600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    return f"{seconds // 3_600}h {seconds % 3_600 // 60:02d}m"


def exact_duration(ms: int | None) -> str:
    """A duration in the largest unit that holds it exactly (``90s``, ``5m``, ``37ms``); ``-`` for none."""
    if ms is None:
        return "-"
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms and ms % length == 0:
            return f"{ms // length}{unit}"
    return f"{ms}ms"


def rate(rows: int, ms: int) -> str:
    """Rows a second, rounded to what can be read: ``950 rows/s``, ``12.3k rows/s``, ``4.1M rows/s``."""
    if rows <= 0 or ms <= 0:
        return ""
    value = rows * 1_000 / ms
    if value >= 999_950:
        return f"{value / 1_000_000:.1f}M rows/s"
    if value >= 999.5:
        return f"{value / 1_000:.1f}k rows/s"
    return f"{value:.0f} rows/s"
