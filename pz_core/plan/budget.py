"""How much memory a run may take: a ceiling computed from the project alone, without looking at the machine."""

from __future__ import annotations

from pz_core.errors import PzError, Where
from pz_core.plan.model import MemoryBudget
from pz_core.project.model import EngineConfig
from pz_core.values.sizes import is_percentage, parse_size

#: Batches that a universal edge can hold at once: four queued, one being made, one being taken.
BATCHES_PER_EDGE = 6
FIXED_OVERHEAD_BYTES = 256 * 1024**2


def memory_budget(engine: EngineConfig) -> MemoryBudget:
    """The ceiling of a run: DuckDB's limit, the batches in flight, and a fixed overhead, in bytes.

    Raises:
        PzError: PZ0120 if ``engine.duckdb.memory_limit`` is no size.
    """
    limit, disclaimer = _limit(engine.memory_limit)
    channels = engine.threads * BATCHES_PER_EDGE * engine.batch_bytes
    threads_disclaimer = (
        "engine.duckdb.threads is not set: DuckDB uses every core, and a thread takes memory that is not counted here"
        if engine.duckdb_threads is None
        else None
    )
    total = (limit or 0) + channels + FIXED_OVERHEAD_BYTES
    return MemoryBudget(limit, channels, FIXED_OVERHEAD_BYTES, total, disclaimer, threads_disclaimer)


def _limit(text: str | None) -> tuple[int | None, str | None]:
    if text is None:
        return None, "engine.duckdb.memory_limit is not set: the default depends on the machine and is counted as 0"
    if is_percentage(text):
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
