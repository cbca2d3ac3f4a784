"""``pz plugins``: everything that is registered, of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.options import json_option, project_option
from pz_core.errors import Notice, PzError

if TYPE_CHECKING:
    from pz_core.plugins import Offer, Registry


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

    registry = registry_of(project)
    rows = [_described(registry, offer) for offer in registry.offers]
    for row in rows:
        if "error" in row:
            error: PzError = row["error"]
            output.tell(Notice("warning", error.message, error.code, error.where, error.hint).render())
    if as_json:
        output.say_json([{k: v.as_dict() if isinstance(v, PzError) else v for k, v in row.items()} for row in rows])
        return
    cells = [(r["kind"], r["name"], r["package"], r["version"], _remark(r)) for r in rows]
    output.say_all(output.table(cells, [10, 16, 10, 7], head=("KIND", "NAME", "PACKAGE", "VERSION", "SUMMARY")))


def _described(registry: Registry, offer: Offer) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": offer.kind,
        "name": offer.name,
        "package": offer.distribution,
        "version": offer.version,
        "usable": offer.usable,
    }
    if not offer.usable:
        return row  # the project does not list it: it is not imported
    try:
        registration = registry.registration(offer.kind, offer.name)  # type: ignore[arg-type]
        row.update(summary=registration.summary, api=registration.api)
    except PzError as error:
        row["error"] = error
    return row


def _remark(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['error'].code}: cannot be used"
    return str(row["summary"]) if row["usable"] else "not listed in project.yml"
