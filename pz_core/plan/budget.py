"""How much memory a run may take: a ceiling computed from the project alone, without looking at the machine."""

from __future__ import annotations

import re

from pz_core.errors import PzError, Where
from pz_core.plan.model import MemoryBudget
from pz_core.project.model import EngineConfig

#: Batches that a universal edge can hold at once: four queued, one being made, one being taken.
BATCHES_PER_EDGE = 6
FIXED_OVERHEAD_BYTES = 256 * 1024**2

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_PERCENTAGE = re.compile(r"\s*\d+(?:\.\d+)?\s*%\s*")
_UNITS: dict[str, int] = {"": 1, "b": 1, "byte": 1, "bytes": 1} | {
    spelling: base**power
    for power, (letter, word) in enumerate((("k", "kilo"), ("m", "mega"), ("g", "giga"), ("t", "tera")), start=1)
    for base, spellings in (
        (1000, (letter, f"{letter}b", f"{word}byte", f"{word}bytes")),
        (1024, (f"{letter}i", f"{letter}ib", f"{word[:2]}bibyte", f"{word[:2]}bibytes")),
    )
    for spelling in spellings
}


def memory_budget(engine: EngineConfig) -> MemoryBudget:
    """The ceiling of a run: DuckDB's limit, the batches in flight, and a fixed overhead, in bytes.

    Raises:
        PzError: PZ0120 if ``engine.duckdb.memory_limit`` is no size.
    """
    limit, disclaimer = _limit(engine.memory_limit)
    channels = engine.threads * BATCHES_PER_EDGE * engine.batch_bytes
    threads_disclaimer = (
        "engine.duckdb.threads is not set: DuckDB uses every core, and needs more for each column and thread"
        if engine.duckdb_threads is None
        else None
    )
    total = (limit or 0) + channels + FIXED_OVERHEAD_BYTES
    return MemoryBudget(limit, channels, FIXED_OVERHEAD_BYTES, total, disclaimer, threads_disclaimer)


def _limit(text: str | None) -> tuple[int | None, str | None]:
    if text is None:
        return None, "engine.duckdb.memory_limit is not set: the default depends on the machine and is counted as 0"
    if _PERCENTAGE.fullmatch(text):
        return None, f"engine.duckdb.memory_limit is {text.strip()} of the machine's memory and is counted as 0"
    made = parse_size(text)
    if made is None:
        raise PzError(
            "PZ0120",
            f"engine.duckdb.memory_limit '{text}' is no size",
            where=Where("project.yml"),
            hint="write a number and a unit, such as 4GB, 512MiB or 80%",
        )
    return made, None


def parse_size(text: str) -> int | None:
    """Bytes of ``1GiB``, ``500 MB`` or ``1073741824``; ``None`` if the text is no size. Case does not matter."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS:
        return None
    number, unit = match[1], _UNITS[match[2].lower()]
    return int(number) * unit if number.isdecimal() else int(float(number) * unit)
