"""``pz clean``: remove staging databases of past runs, or whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pz_core.cli import output
from pz_core.cli.management import project_root
from pz_core.cli.options import project_option
from pz_core.render.text import plural, size

if TYPE_CHECKING:
    from pz_core.run.retention import Sweep


@click.command()
@click.option("--keep-last", metavar="N", default=None, help="Spare the newest N runs; 1 by default, 0 spares none.")
@click.option(
    "--older-than", metavar="DURATION", default=None, help="Take runs older than 30m, 12h, 7d; never the newest."
)
@click.option("--purge", is_flag=True, help="Remove whole runs, with their results.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
@project_option
def clean(project: Path, keep_last: str | None, older_than: str | None, purge: bool, dry_run: bool) -> int:
    """Remove staging databases of past runs. Results, state and .pz/target stay; a run that is going on is spared."""
    from pz_core.run.clean import clean as sweep_runs
    from pz_core.run.store import stored_history

    root = project_root(project)
    with stored_history(root) as history:
        swept = sweep_runs(
            root, keep_last=keep_last, older_than=older_than, purge=purge, dry_run=dry_run, store=history.store
        )
    output.tell_notices(history.notices)
    output.say_all(_lines(swept, purge=swept.whole, dry_run=dry_run))
    if swept.whole and keep_last is not None and keep_last.strip("0") == "" and swept.runs:
        output.note("no run is left that pz retry could repeat")
    for run in swept.live:
        output.note(f"run {run} is going on and was spared")
    for path in swept.failed:
        output.note(f"{path} could not be removed")
    return 1 if swept.failed else 0


def _lines(swept: Sweep, *, purge: bool, dry_run: bool) -> list[str]:
    if swept.nothing:
        return ["nothing to clean"]
    verb = "would remove" if dry_run else "removed"
    what = plural(len(swept.runs), "run") if purge else plural(len(swept.runs), "staging database")
    extra = f" and {plural(swept.work_dirs, 'stale working folder')}" if swept.work_dirs else ""
    freed = "would free" if dry_run else "freed"
    return [*(f"{verb} {run}" for run in swept.runs), f"{verb} {what}{extra}, {freed} {size(swept.bytes_freed)}"]
