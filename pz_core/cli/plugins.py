"""``pz plugins``: everything that is registered, of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.options import json_option, project_option
from pz_core.errors import Notice

if TYPE_CHECKING:
    from pz_core.plugins.registry import PluginRow


@click.group(invoke_without_command=True)
@project_option
@json_option
@click.pass_context
def plugins(context: click.Context, project: Path, as_json: bool) -> None:
    """List the plugins that are installed: connectors, checks, strategies, state backends, engines, observers."""
    if context.invoked_subcommand is None:
        _list(project, as_json)
    else:
        context.obj = (project, as_json)


@plugins.command("list")
@project_option
@json_option
@click.pass_context
def list_(context: click.Context, project: Path, as_json: bool) -> None:
    """List what is installed (the same as pz plugins alone)."""
    outer_project, outer_json = context.obj or (Path(), False)
    _list(project if project != Path() else outer_project, as_json or outer_json)


def _list(project: Path, as_json: bool) -> None:
    from pz_core.cli.connectors import registry_of

    rows = registry_of(project).describe()
    for row in rows:
        if row.fault is not None:
            fault = row.fault
            output.tell(Notice("warning", fault.message, fault.code, fault.where, fault.hint).render())
    if as_json:
        output.say_json([_as_dict(row) for row in rows])
        return
    cells = [(row.kind, row.name, row.distribution, row.version, _remark(row)) for row in rows]
    output.say_all(output.table(cells, [10, 16, 10, 7], head=("KIND", "NAME", "PACKAGE", "VERSION", "SUMMARY")))


def _remark(row: PluginRow) -> str:
    if row.fault is not None:
        return f"{row.fault.code}: cannot be used"
    return row.summary or "" if row.usable else "not listed in project.yml"


def _as_dict(row: PluginRow) -> dict[str, Any]:
    made: dict[str, Any] = {
        "kind": row.kind,
        "name": row.name,
        "package": row.distribution,
        "version": row.version,
        "usable": row.usable,
    }
    if row.fault is not None:
        made["error"] = row.fault.as_dict()
    elif row.usable:
        made.update(summary=row.summary, api=row.api)
    return made
