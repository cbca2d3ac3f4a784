"""The last lines of a run."""

from __future__ import annotations

from collections.abc import Mapping

from pz_core.render.text import count, elapsed, plural, size


def summary_line(run_id: str, succeeded: int, failed: int, skipped: int, path: str) -> str:
    """How a run ended and where its results are."""
    return f"run {run_id}: {count(succeeded)} succeeded, {count(failed)} failed, {count(skipped)} skipped ({path})"


def accounting_line(totals: Mapping[str, int], duration_ms: int) -> str:
    """What became of the rows, and the time.

    Args:
        totals: any of ``read``, ``staged``, ``passed``, ``written``, ``rejected``; absent ones count as zero. Rows that
            passed straight through are told only if there are any.
        duration_ms: of the whole run.
    """
    words = [w for w in ("read", "staged", "passed", "written", "rejected") if w != "passed" or totals.get(w)]
    parts = ", ".join(f"{word} {count(totals.get(word, 0))}" for word in words)
    return f"rows: {parts} in {elapsed(duration_ms)}"


def retention_line(runs_swept: int, bytes_freed: int, failures: int) -> str | None:
    """What the retention sweep did; ``None`` if there is nothing to say."""
    if not runs_swept and not failures:
        return None
    line = f"retention: removed {plural(runs_swept, 'staging database')}, freed {size(bytes_freed)}"
    return f"{line}; {count(failures)} could not be removed" if failures else line
