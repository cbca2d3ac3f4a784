"""``pz plugins``: everything that is registered, of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.options import json_option, project_option
from pz_core.cli.plugin_scaffold import KINDS
from pz_core.errors import Notice, PzError

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


@plugins.command("new")
@click.argument("name")
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What the plugin is.")
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder to make the package's own folder in; the current one by default.",
)
def new(name: str, kind: str, into: Path) -> None:
    """Start the package of a plugin called NAME. It passes its own tests as it is; make it yours from there."""
    from pz_core.cli.plugin_scaffold import scaffold
    from pz_core.plugins.registry import CORE_DISTRIBUTION, Registry

    package = scaffold(kind, name)
    if any((o.kind, o.name, o.distribution) == (kind, name, CORE_DISTRIBUTION) for o in Registry().offers):
        raise PzError("PZ0708", f"pz itself ships the {kind} '{name}'", hint="choose a name that it does not have")
    target = package.write(into)
    output.say(f"{kind} '{name}' at {target}")
    output.say("next:")
    for step in (f"cd {target}", "python -m pip install -e . pytest", "pytest", f"pz plugins check {name}"):
        output.say(f"  {step}")


@plugins.command("check")
@click.argument("name")
@click.option("--rule", "rules", metavar="RULE", multiple=True, help="Run this rule only; may be given several times.")
@json_option
@click.pass_context
def check(context: click.Context, name: str, rules: tuple[str, ...], as_json: bool) -> int:
    """Run the kit's rules on an installed plugin, or on all that a package offers. Exit 1 if one is broken."""
    from pz_core.cli.plugin_card import card_of, offers_named
    from pz_core.plugins import Registry

    as_json = as_json or bool((context.obj or (None, False))[1])
    cards = []
    for offer in offers_named(name, Registry()):
        cards.append(card := card_of(offer, rules))
        if not as_json:
            output.say_all(card.lines())
    broken = [card for card in cards if card.broken]
    if as_json:
        output.say_json({"ok": not broken, "plugins": [card.as_dict() for card in cards]})
    for card in broken:
        names = list(dict.fromkeys(result["rule"] for result in card.broken))
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        offer = card.offer
        message = f"{offer.kind} '{offer.name}' of {offer.distribution} {offer.version} breaks {shown}"
        hint = "the card says how; the package's own tests run the same rules one by one"
        output.tell(PzError("PZ0706", message, hint=hint).render())
    return 1 if broken else 0


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
