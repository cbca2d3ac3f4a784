"""``pz runs``: the history, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.management import project_root
from pz_core.cli.options import json_option, project_option
from pz_core.errors import PzError
from pz_core.render.text import exact_duration

if TYPE_CHECKING:
    from pz_core.run.history import RunSummary

_HEAD = ("RUN ID", "STATUS", "STARTED AT", "DURATION", "OK", "FAILED", "SKIPPED", "PROVENANCE")


@click.command()
@click.option("--limit", metavar="N", type=int, default=None, help="Show the newest N only.")
@project_option
@json_option
def runs(project: Path, limit: int | None, as_json: bool) -> None:
    """List past runs, newest first. Works on a project that no longer loads."""
    if limit is not None and limit < 1:
        raise PzError("PZ0534", f"--limit {limit} is less than 1", hint="give the number of runs to show, 1 or more")
    from pz_core.run.history import list_runs
    from pz_core.run.store import stored_history

    root = project_root(project)
    with stored_history(root) as history:
        found = list_runs(root, history.store, limit)
    output.tell_notices(history.notices)
    if as_json:
        output.say_json([_as_dict(run) for run in found])
    elif not found:
        output.say("no runs found")
    else:
        output.say_all(output.table([_cells(run) for run in found], [25, 7, 24, 8, 2, 6, 7], head=_HEAD))


def _cells(run: RunSummary) -> tuple[str, ...]:
    numbers = (str(run.succeeded), str(run.failed), str(run.skipped))
    return (run.run_id, run.status, run.started_at or "-", exact_duration(run.duration_ms), *numbers, _provenance(run))


def _provenance(run: RunSummary) -> str:
    parts = [f"{n} {word}" for n, word in ((run.reused, "reused"), (run.carried_forward, "carried_forward")) if n]
    return ", ".join(parts) or "-"


def _as_dict(run: RunSummary) -> dict[str, Any]:
    return {
        "runId": run.run_id,
        "status": run.status,
        "startedAt": run.started_at,
        "finishedAt": run.finished_at,
        "durationMs": run.duration_ms,
        "succeeded": run.succeeded,
        "failed": run.failed,
        "skipped": run.skipped,
        "reused": run.reused,
        "carriedForward": run.carried_forward,
    }
