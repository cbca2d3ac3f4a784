"""Names of written files: one for what replaces, one a run for what is appended, and how to tell the latter again."""

from __future__ import annotations

import re
from functools import lru_cache

_DATA_ENDING = r"(?:(?:csv|tsv|json)(?:\.gz|\.zst)?|parquet)"


def file_stem(entity: str) -> str:
    """An entity as a file name: the last part of one with slashes."""
    return entity.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def written_name(stem: str, ending: str, load_mode: str, run_id: str) -> str:
    """The name of a written file.

    One attempt of a run writes the name that every other attempt of it writes: a retry cannot add rows twice.

    Args:
        stem: what :func:`file_stem` gives.
        ending: without the leading dot.
        load_mode: ``swap`` replaces the one file; any other adds a file of the run.
        run_id: of the run.
    """
    return f"{stem}.{ending}" if load_mode == "swap" else f"{stem}-{run_id}-1.{ending}"


def is_appended(name: str, stem: str) -> bool:
    """Whether a file is one that an earlier append of the entity left: ``<stem>-<run id>-<n>.<ending>``, no other."""
    return _appended(stem).fullmatch(name) is not None


@lru_cache(maxsize=64)
def _appended(stem: str) -> re.Pattern[str]:
    return re.compile(re.escape(stem) + rf"-\d{{8}}T\d{{9}}Z-[0-9a-f]{{4}}-\d+\.{_DATA_ENDING}")
