"""``pz cdc``: datasets whose changes are captured: how each stands, and how a capture is ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.options import json_option, project_options
from pz_core.cli.prepare import open_graph
from pz_core.errors import PzError

if TYPE_CHECKING:
    from pz_core.run.capture_admin import Captured, Standing


@click.group()
def cdc() -> None:
    """Look at datasets that are read with sync: {mode: cdc}, or end a capture."""


@cdc.command()
@project_options
@json_option
def status(project: Path, vars_json: str | None, as_json: bool) -> int:
    """Say how every captured dataset stands: place in the log, lag, what its server keeps for it.

    Ends with 1 if the next run of any of them would fail.
    """
    from pz_core.run.capture_admin import Captures

    graph, registry = open_graph(project, vars_json)
    with Captures(graph, registry) as captures:
        found = captures.all()
    if as_json:
        output.say_json({"datasets": [_as_dict(item) for item in found]})
    elif not found:
        output.say("no cdc datasets in this project")
    else:
        head = ("DATASET", "POSITION", "STORED", "LAG", "RETAINED", "RUN", "HEALTH")
        lines = output.table([_cells(item) for item in found], [10, 8, 6, 4, 8, 4], head=head)
        told = [lines[0]]
        for item, line in zip(found, lines[1:], strict=True):
            told += [line, *(f"  {detail}" for detail in _details(item))]
        output.say_all(told)
    return 1 if any(item.health == "unhealthy" for item in found) else 0


@cdc.command()
@click.argument("targets", metavar="CONNECTION.ENTITY", nargs=-1)
@click.option("--reason", metavar="TEXT", default=None, help="Why; kept in .pz/state/audit.jsonl.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
@project_options
@json_option
def drop(
    targets: tuple[str, ...],
    reason: str | None,
    dry_run: bool,
    yes: bool,
    project: Path,
    vars_json: str | None,
    as_json: bool,
) -> int:
    """End the capture of one dataset: what its server keeps for it goes, and the stored place in the log.

    The next run reads all rows. Rows that are deleted meanwhile stay in the target.
    """
    from pz_core.run.capture_admin import Captures
    from pz_core.run.state_admin import StateAdmin

    if len(targets) != 1:
        raise PzError(
            "PZ0507",
            f"pz cdc drop takes one dataset, and {len(targets)} are given",
            hint="write it as connection.entity, as in shop.orders",
        )
    graph, registry = open_graph(project, vars_json)
    with Captures(graph, registry) as captures, StateAdmin(graph.project.root) as admin:
        if admin.faults:
            output.tell_notices(admin.faults)
            output.note("nothing was changed: put the file back from a copy, or let the next run write a new one")
            return 1
        item = captures.named(targets[0])
        lines = captures.remove(item, dry_run=True)
        stored = captures.has_token(item)
        if dry_run or not (lines or stored):
            _told(item, lines, stored, as_json, applied=False)
            output.note("dry run: nothing was changed" if dry_run else "there is nothing to remove")
            return 0
        admin.refuse_live()
        if not yes and not _agreed(item, lines, stored):
            output.note("nothing was changed")
            return 0
        admin.refuse_live()  # a run may have started while the question stood
        # The state first: without a stored place the next run reads all rows, whatever is still there of the capture.
        line = None
        if stored:
            planned = admin.plan_clear(item.dataset)
            admin.apply(planned)
            change, failure = admin.audit(planned, reason)
            line = None if failure is None else change.line()
        removed = captures.remove(item, dry_run=False)
        _told(item, removed, stored, as_json, applied=True)
    if line is None:
        return 0
    output.note(f"the capture was ended, and .pz/state/audit.jsonl could not be written; add this line to it: {line}")
    return 1


def _agreed(item: Captured, lines: tuple[str, ...], stored: bool) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PzError(
            "PZ0516",
            f"pz cdc drop {item.dataset} asks before it removes anything, and there is no terminal",
            hint="add --yes if it is meant; --dry-run shows what it would do",
        )
    for text in _lines(item, lines, stored, applied=False):
        output.tell(text)
    try:
        return click.confirm("end the capture?", default=False, err=True)
    except click.Abort:
        return False


def _told(item: Captured, lines: tuple[str, ...], stored: bool, as_json: bool, *, applied: bool) -> None:
    if as_json:
        output.say_json({"dataset": item.dataset, "removes": list(lines), "hadStoredToken": stored, "applied": applied})
        return
    output.say_all(_lines(item, lines, stored, applied=applied))


def _lines(item: Captured, lines: tuple[str, ...], stored: bool, *, applied: bool) -> list[str]:
    done = "removed" if applied else "would be removed"
    every = [*lines, *(["the stored place in the log"] if stored else [])]
    return [f"{item.dataset}: {done}: {line}" for line in every]


def _cells(item: Standing) -> tuple[str, ...]:
    found = item.status
    return (
        item.captured.dataset,
        "-" if found is None else found.position,
        "-" if not item.stored else (found.stored if found and found.stored else "yes"),
        _size(None if found is None else found.lag_bytes),
        _size(None if found is None else found.retained_bytes),
        item.run_id or "-",
        item.health,
    )


def _details(item: Standing) -> list[str]:
    made: list[str] = []
    if item.error is not None:
        made.append(f"{item.error.code} {item.error.message}")
        made += [item.error.hint] if item.error.hint else []
    if item.status is not None:
        made += [*item.status.faults, *item.status.notes]
    return made


def _size(count: int | None) -> str:
    return "-" if count is None else f"{count} B"


def _as_dict(item: Standing) -> dict[str, Any]:
    found = item.status
    return {
        "dataset": item.captured.dataset,
        "position": None if found is None else found.position,
        "hasStoredToken": item.stored,
        "storedPosition": None if found is None else found.stored,
        "confirmedPosition": None if found is None else found.confirmed,
        "lagBytes": None if found is None else found.lag_bytes,
        "retainedBytes": None if found is None else found.retained_bytes,
        "runId": item.run_id,
        "health": item.health,
        "details": _details(item),
    }
