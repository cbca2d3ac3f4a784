"""The runs that a project remembers, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from pz_core.contract.state import RunStore
from pz_core.run.lock import is_live
from pz_core.run.results import FILE, RUNNING, RunRecord, read_results, record_of
from pz_core.run.runid import is_run_id


class RunSummary(Struct, frozen=True):
    """A run of the history.

    Args:
        status: as recorded; ``unreadable`` if the file is broken.
        live: whether its process is still at work, here or elsewhere.
        path: of its file, which is not there if the run was made elsewhere.
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


def list_runs(root: Path, store: RunStore | None = None, limit: int | None = None) -> tuple[RunSummary, ...]:
    """All runs, newest first. A directory that is none is passed over, a broken file is told as such.

    Args:
        root: of the project.
        store: where runs of all machines are, beside the directories of this one. Of a run that is in both, what ended
            here is told by its file, which is written first; one that has been removed from there is history.
        limit: how many to look at.

    Raises:
        PzError: what the store says.
    """
    here = {d.name: d for d in run_directories(root) if is_run_id(d.name) and (d / FILE).is_file()}
    heads = {} if store is None else {head.run_id: head for head in store.heads() if is_run_id(head.run_id)}
    place = None if store is None else store.identity()
    alone = {name: _summary(here[name]) for name in here.keys() - heads.keys()}
    gone = {name for name, run in alone.items() if place is not None and _stored_in(run) == place and not run.live}
    names = sorted({*here, *heads} - gone, reverse=True)[:limit]
    found = {name: alone.get(name) or _summary(here[name]) for name in names if name in here}
    wanted = [name for name in names if name in heads and not _ended(found.get(name))]
    documents = {} if store is None or not wanted else store.documents(wanted)
    for name in wanted:
        local = found.get(name)
        if name in documents and (local is None or not local.live):
            stored = _of_document(runs_dir(root) / name / FILE, name, documents[name], heads[name].live)
            if stored.record is not None or local is None:
                found[name] = stored
    return tuple(found[name] for name in names if name in found)


def _stored_in(run: RunSummary) -> str | None:
    return None if run.record is None else run.record.stored_in


def _ended(run: RunSummary | None) -> bool:
    return run is not None and run.record is not None and run.status != RUNNING


def latest(root: Path) -> RunSummary | None:
    """The newest run that can be read, ``None`` without one."""
    return next((run for run in list_runs(root) if run.record is not None), None)


def _summary(directory: Path) -> RunSummary:
    path = directory / FILE
    try:
        record = read_results(path)
    except (OSError, ValueError):
        return _unreadable(directory.name, path)
    return _told(directory.name, record, path, record.status == RUNNING and is_live(directory))


def _of_document(path: Path, name: str, document: Mapping[str, Any], live: bool) -> RunSummary:
    try:
        return _told(name, record_of(document), path, live)
    except ValueError:
        return _unreadable(name, path)


def _unreadable(name: str, path: Path) -> RunSummary:
    return RunSummary(name, "unreadable", None, None, None, 0, 0, 0, 0, 0, False, path)


def _told(name: str, record: RunRecord, path: Path, live: bool) -> RunSummary:
    statuses = [node.status for node in record.nodes]
    provenances = [node.provenance for node in record.nodes]
    return RunSummary(
        run_id=name,
        status=record.status,
        started_at=record.started_at,
        finished_at=record.finished_at,
        duration_ms=_duration(record),
        succeeded=statuses.count("success"),
        failed=statuses.count("failed"),
        skipped=statuses.count("skipped"),
        reused=provenances.count("reused"),
        carried_forward=provenances.count("carried_forward"),
        live=live,
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
