"""``pz state``: what the project remembers of its datasets, and the changes that a person may make to it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pz_core.cli import output
from pz_core.cli.management import project_root
from pz_core.cli.options import json_option, project_option
from pz_core.errors import PzError

if TYPE_CHECKING:
    from pz_core.run.state_admin import Planned, Recorded, StateAdmin, StoredToken, StoredWatermark
    from pz_core.run.state_audit import Change

F = TypeVar("F", bound=Callable[..., Any])

_HISTORY_SHOWN = 20


def _writing(function: F) -> F:
    """The options of the three changes."""
    for option in (
        click.option("--reason", metavar="TEXT", default=None, help="Why; kept in .pz/state/audit.jsonl."),
        click.option("--dry-run", is_flag=True, help="Only tell what would change."),
        click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal."),
        project_option,
        json_option,
    ):
        function = option(function)
    return function


@click.group()
def state() -> None:
    """Look at what the project remembers of its datasets, or change it. Works on a project that no longer loads."""


@state.command()
@click.argument("key", required=False)
@project_option
@json_option
def show(key: str | None, project: Path, as_json: bool) -> int:
    """List what is stored; with KEY (connection.entity), what past runs recorded and who changed it by hand too."""
    from pz_core.run.state_admin import StateAdmin

    with StateAdmin(project_root(project)) as admin:
        output.tell_notices(admin.faults)
        if key is not None:
            if not admin.faults:
                admin.known(key)
            elif admin.watermark(key) is None and admin.token(key) is None:
                # Whether something was stored under it cannot be said: the damaged store is the news, not the key.
                if as_json:
                    output.say_json({"key": key, "watermark": None, "token": None})
                return 1
            _show_one(admin, key, as_json)
        else:
            _show_all(admin, as_json)
        return 1 if admin.faults else 0


@state.command("set")
@click.argument("key", required=False)
@click.option("--value", metavar="VALUE", default=None, help="The new value, in the type that is stored.")
@_writing
def set_(
    key: str | None, value: str | None, reason: str | None, dry_run: bool, yes: bool, project: Path, as_json: bool
) -> int:
    """Store another value under KEY. Forward skips rows for good; backward reads rows again."""
    key, value = _needed("set", "KEY", key), _needed("set", "--value", value)
    return _change(project, lambda admin: admin.plan_set(key, value), reason, dry_run, yes, as_json)


@state.command()
@click.argument("key", required=False)
@click.option("--to-run", "run_id", metavar="RUN", default=None, help="The run whose recorded value is stored again.")
@_writing
def rollback(
    key: str | None, run_id: str | None, reason: str | None, dry_run: bool, yes: bool, project: Path, as_json: bool
) -> int:
    """Go back to the value of KEY that a past run recorded, so that later rows are read again."""
    key, run_id = _needed("rollback", "KEY", key), _needed("rollback", "--to-run", run_id)
    return _change(project, lambda admin: admin.plan_rollback(key, run_id), reason, dry_run, yes, as_json)


@state.command()
@click.argument("key", required=False)
@_writing
def clear(key: str | None, reason: str | None, dry_run: bool, yes: bool, project: Path, as_json: bool) -> int:
    """Forget what is stored under KEY, so that the next run reads the dataset in full."""
    key = _needed("clear", "KEY", key)
    return _change(project, lambda admin: admin.plan_clear(key), reason, dry_run, yes, as_json)


# --- changing --------------------------------------------------------------------------------------------------------


def _needed(verb: str, name: str, given: str | None) -> str:
    if given is None:
        raise PzError("PZ0516", f"pz state {verb} needs {name}", hint=f"pz state {verb} --help shows how it is written")
    return given


def _change(
    project: Path,
    plan: Callable[[StateAdmin], Planned],
    reason: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    from pz_core.run.state_admin import StateAdmin

    with StateAdmin(project_root(project)) as admin:
        if admin.faults:
            output.tell_notices(admin.faults)
            output.note("nothing was changed: put the file back from a copy, or let the next run write a new one")
            return 1
        planned = plan(admin)
        if planned.nothing:
            _told(planned, as_json, applied=False)
            output.note(f"{planned.key} has that value already; nothing was changed")
            return 0
        if dry_run:
            _told(planned, as_json, applied=False)
            output.note("dry run: nothing was changed")
            return 0
        admin.refuse_live()
        if not yes and not _agreed(planned):
            output.note("nothing was changed")
            return 0
        admin.refuse_live()  # a run may have started while the question stood
        admin.apply(planned)
        change, failure = admin.audit(planned, reason)
        _told(planned, as_json, applied=True)
        if failure is None:
            return 0
        output.note(
            f"the state was changed, and .pz/state/audit.jsonl could not be written ({type(failure).__name__}); "
            f"add this line to it: {change.line()}"
        )
        return 1


def _agreed(planned: Planned) -> bool:
    """Ask on the terminal.

    Raises:
        PzError: PZ0516 where there is none.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PzError(
            "PZ0516",
            f"pz state {planned.action} {planned.key} asks before it changes anything, and there is no terminal",
            hint="add --yes if the change is meant; --dry-run shows what it would do",
        )
    for line in _lines(planned):
        output.tell(line)
    try:
        return click.confirm("change it?", default=False, err=True)
    except click.Abort:
        return False


def _told(planned: Planned, as_json: bool, *, applied: bool) -> None:
    if as_json:
        output.say_json(
            {
                "action": planned.action,
                "key": planned.key,
                "before": planned.before,
                "after": planned.after,
                "toRun": planned.to_run,
                "consequence": planned.consequence,
                "applied": applied,
            }
        )
        return
    output.say_all(_lines(planned))


def _lines(planned: Planned) -> list[str]:
    before = "(token)" if planned.before is None else planned.before
    after = "(nothing)" if planned.after is None else planned.after
    made = [f"{planned.key}: {before} -> {after}"]
    return made if planned.nothing else [*made, planned.consequence]


# --- looking ---------------------------------------------------------------------------------------------------------


def _show_all(admin: StateAdmin, as_json: bool) -> None:
    watermarks, tokens = admin.watermarks(), admin.tokens()
    if as_json:
        output.say_json(
            {
                "backend": admin.backend,
                "watermarks": [_watermark(item) for item in watermarks],
                "syncState": [_token(item) for item in tokens],
            }
        )
        return
    lines = [f"state: {admin.backend}"]
    if not watermarks and not tokens:
        lines.append("nothing is stored")
    if watermarks:
        cells = [
            (item.key, item.cursor or "-", item.type or "-", item.value or "-", item.run_id or "-", item.flaw or "")
            for item in watermarks
        ]
        lines += output.table(cells, [10, 6, 6, 5, 6], head=("WATERMARK", "CURSOR", "TYPE", "VALUE", "RUN", ""))
    if tokens:
        rows = [(item.key, "stored", item.run_id or "-") for item in tokens]
        lines += output.table(rows, [10, 6], head=("SYNC STATE", "TOKEN", "RUN"))
    output.say_all(lines)


def _show_one(admin: StateAdmin, key: str, as_json: bool) -> None:
    stored, token = admin.watermark(key), admin.token(key)
    history, changes = admin.history(key), admin.changes(key)
    for other in admin.ambiguous(key):
        output.note(f"runs record {key} and {other} under one name, so the history may speak of either")
    if as_json:
        output.say_json(
            {
                "key": key,
                "watermark": None if stored is None else _watermark(stored),
                "token": None if token is None else _token(token),
                "history": [_recorded(item) for item in history],
                "changes": [item.as_dict() for item in changes],
            }
        )
        return
    lines = [key]
    if stored is not None:
        head = (
            f"  {stored.value or '-'} (cursor {stored.cursor or '-'}, {stored.type or '-'}, run {stored.run_id or '-'})"
        )
        lines.append(head)
        if stored.flaw:
            lines.append(f"  runs cannot rely on it: {stored.flaw}")
    if token is not None:
        lines.append(f"  a token of its connector is stored (run {token.run_id or '-'})")
    if history:
        lines.append("recorded by runs, newest first:")
        lines += [
            f"  {line}"
            for line in output.table(
                [(i.run_id, i.status, i.value or "no candidate") for i in history[:_HISTORY_SHOWN]], [25, 7]
            )
        ]
    if changes:
        lines.append("changed by hand, newest first:")
        lines += [f"  {_changed(item)}" for item in changes]
    output.say_all(lines)


def _changed(item: Change) -> str:
    moved = f"{item.before or '(token)'} -> {item.after or '(nothing)'}"
    parts = [item.at, item.action, moved]
    if item.to_run:
        parts.append(f"run {item.to_run}")
    if item.user:
        parts.append(f"by {item.user}")
    if item.reason:
        parts.append(f": {' '.join(item.reason.split())}")
    return " ".join(parts)


def _watermark(item: StoredWatermark) -> dict[str, Any]:
    made: dict[str, Any] = {
        "key": item.key,
        "cursor": item.cursor,
        "type": item.type,
        "value": item.value,
        "runId": item.run_id,
    }
    return made if item.flaw is None else {**made, "flaw": item.flaw}


def _token(item: StoredToken) -> dict[str, Any]:
    return {"key": item.key, "hasStoredToken": True, "runId": item.run_id}


def _recorded(item: Recorded) -> dict[str, Any]:
    candidate = None if item.value is None else {"cursor": item.cursor, "type": item.type, "value": item.value}
    return {"runId": item.run_id, "status": item.status, "watermark": candidate}
