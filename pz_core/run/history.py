"""The runs that a project remembers, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pz_core.run.lock import is_live
from pz_core.run.results import FILE, RUNNING, RunRecord, read_results
from pz_core.run.runid import is_run_id


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run of the history.

    Args:
        status: as recorded; ``unreadable`` if the file is broken.
        live: whether its process is still at work.
        record: all that was recorded, ``None`` if the file is broken.
    """

    run_id: str
    status: str
    started_at: str | None
    finished_at: str | None
    duration_ms: int | None
    succeeded: int
    failed: int
    skipped: int
    reused: int
    carried_forward: int
    live: bool
    path: Path
    record: RunRecord | None = None


def runs_dir(root: Path) -> Path:
    """Where the runs of a project are."""
    return root / ".pz" / "runs"


def run_directories(root: Path) -> tuple[Path, ...]:
    """Directories below ``.pz/runs``: those named like a run, newest first, then strangers. No links."""
    base = runs_dir(root)
    if not base.is_dir():
        return ()
    found = [d for d in base.iterdir() if d.is_dir() and not d.is_symlink()]
    return tuple(sorted(found, key=lambda d: (is_run_id(d.name), d.name), reverse=True))


def list_runs(root: Path) -> tuple[RunSummary, ...]:
    """All runs, newest first. A directory that is none is passed over, a broken file is told as such."""
    return tuple(
        _summary(directory)
        for directory in run_directories(root)
        if is_run_id(directory.name) and (directory / FILE).is_file()
    )


def latest(root: Path) -> RunSummary | None:
    """The newest run that can be read, ``None`` without one."""
    return next((run for run in list_runs(root) if run.record is not None), None)


def _summary(directory: Path) -> RunSummary:
    path = directory / FILE
    try:
        record = read_results(path)
    except (OSError, ValueError):
        return RunSummary(directory.name, "unreadable", None, None, None, 0, 0, 0, 0, 0, False, path)
    statuses = [node.status for node in record.nodes]
    provenances = [node.provenance for node in record.nodes]
    return RunSummary(
        run_id=directory.name,
        status=record.status,
        started_at=record.started_at,
        finished_at=record.finished_at,
        duration_ms=_duration(record),
        succeeded=statuses.count("success"),
        failed=statuses.count("failed"),
        skipped=statuses.count("skipped"),
        reused=provenances.count("reused"),
        carried_forward=provenances.count("carried_forward"),
        live=record.status == RUNNING and is_live(directory),
        path=path,
        record=record,
    )


def _duration(record: RunRecord) -> int | None:
    if record.finished_at is None:
        return None
    try:
        length = datetime.fromisoformat(record.finished_at) - datetime.fromisoformat(record.started_at)
    except (ValueError, TypeError):
        return None
    return round(length.total_seconds() * 1000)
