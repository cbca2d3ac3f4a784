"""``pz connectors``: what the project can read from and write to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.options import json_option, project_options
from pz_core.errors import Notice, PzError

if TYPE_CHECKING:
    from pz_core.contract.capabilities import Capabilities
    from pz_core.plugins import Offer, Registry


@click.command()
@project_options
@json_option
def connectors(project: Path, vars_json: str | None, as_json: bool) -> None:
    """List the connectors that the project can use, with their abilities. Outside a project, all installed ones.

    One that cannot be imported keeps its row, says why on stderr, and hurts no other.
    """
    registry = registry_of(project, vars_json)
    rows = [_described(registry, name) for name in registry.names("connector")]
    for row in rows:
        if "error" in row:
            error: PzError = row["error"]
            output.tell(Notice("warning", error.message, error.code, error.where, error.hint).render())
    if as_json:
        output.say_json([_as_json(row) for row in rows])
        return
    cells = [(r["name"], r["package"], r["version"], _tiers_text(r), _flags_text(r)) for r in rows]
    if not cells:
        output.note("no connector is installed; pip install pz-connector-localfiles brings files")
        return
    output.say_all(output.table(cells, [10, 10, 7, 6], head=("NAME", "PACKAGE", "VERSION", "TIERS", "FLAGS")))


def registry_of(project: Path, vars_json: str | None = None) -> Registry:
    """The registry of a project, or of the whole environment where there is no project.

    Raises:
        PzErrors: if there is a project and it does not load.
    """
    from pz_core.plugins import Registry

    if vars_json is None and not (project / "project.yml").exists():
        return Registry()
    from pz_core.cli.prepare import open_project

    return open_project(project, vars_json).registry


def _described(registry: Registry, name: str) -> dict[str, Any]:
    offers = [o for o in registry.offers if o.kind == "connector" and o.name == name and o.usable]
    row: dict[str, Any] = {
        "name": name,
        "package": _packages(offers),
        "version": offers[0].version if len(offers) == 1 else "-",
    }
    try:
        target = registry.load("connector", name)
        row["capabilities"] = target.capabilities
        row["summary"] = registry.registration("connector", name).summary
    except PzError as error:
        row["error"] = error
    return row


def _packages(offers: list[Offer]) -> str:
    names = sorted({offer.distribution for offer in offers})
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def tiers(capabilities: Capabilities) -> dict[str, list[str]]:
    """Tiers of each side: ``native``, ``universal``, both or none."""
    sides = {
        "source": (capabilities.native_read, capabilities.universal_read),
        "sink": (capabilities.native_write, capabilities.universal_write),
    }
    return {side: [w for w, on in zip(("native", "universal"), ons, strict=True) if on] for side, ons in sides.items()}


def _tiers_text(row: dict[str, Any]) -> str:
    if "error" in row:
        error: PzError = row["error"]
        return error.code
    made = tiers(row["capabilities"])
    parts = []
    for side, short in (("source", "src"), ("sink", "snk")):
        words = made[side]
        if words:
            parts.append(f"{short}:{'native-only' if words == ['native'] else '+'.join(words)}")
    return " ".join(parts) or "-"


def _flags_text(row: dict[str, Any]) -> str:
    if "error" in row:
        return "cannot be used"
    return ",".join(row["capabilities"].flags()) or "-"


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    made = {key: row[key] for key in ("name", "package", "version")}
    if "error" in row:
        return {**made, "error": row["error"].as_dict()}
    capabilities: Capabilities = row["capabilities"]
    return {
        **made,
        "summary": row["summary"],
        "tiers": tiers(capabilities),
        "flags": list(capabilities.flags()),
        "loadModes": sorted(capabilities.load_modes),
        "schemaPolicies": sorted(capabilities.schema_policies),
    }
