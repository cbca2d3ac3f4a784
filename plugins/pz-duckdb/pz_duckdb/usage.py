"""Which database files this process is going to write.

A file is attached once in a run, by whoever needs it first, and one that is attached for reading only cannot be written
later. Every write is asked for its native way before anything runs, so the reader that comes first knows.
"""

from __future__ import annotations

from pathlib import Path

_WRITTEN: set[Path] = set()


def mark_written(path: Path) -> None:
    """Some write of this process goes to this file."""
    _WRITTEN.add(path)


def is_written(path: Path) -> bool:
    """Whether a write of this process goes to this file."""
    return path in _WRITTEN
