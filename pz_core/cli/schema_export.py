"""``pz schema export``: JSON Schemas of the project's files, for editors."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.options import json_option, project_option

if TYPE_CHECKING:
    from pz_core.errors import PzError
    from pz_core.plugins import Registry

#: Where the files of a project point to, below the project.
FOLDER = Path(".pz", "schemas")


@click.command()
@click.option(
    "--out", "out", metavar="DIR", type=click.Path(path_type=Path), default=None, help="Folder; .pz/schemas by default."
)
@project_option
@json_option
def export(out: Path | None, project: Path, as_json: bool) -> None:
    """Write JSON Schemas of project.yml, connections.yml and sidecars, with which an editor completes and checks them.

    They hold the options of what is installed: export again after installing or upgrading a plugin. Works on a project
    that does not load.
    """
    from pz_core.errors import Notice

    if as_json and out is not None:
        raise click.UsageError("--json prints the schemas, --out writes them; give one of the two")
    if not as_json and out is None:
        from pz_core.cli.management import project_root

        out = project_root(project) / FOLDER
    schemas, faults = make_schemas(project_registry(project))
    for error in faults:
        output.tell(Notice("warning", error.message, error.code, error.where, error.hint).render())
    if out is None:
        output.say_json(schemas)
        return
    for path in write_schemas(out, schemas):
        output.say(f"wrote {_shown(path)}")


def make_schemas(registry: Registry) -> tuple[dict[str, Any], list[PzError]]:
    """The three schemas by name, and what is wrong with plugins that could not be asked for their part."""
    from pz_core.project.connections_schema import connections_schema
    from pz_core.project.json_schema import Plugins, project_schema, sidecar_schema

    plugins = Plugins(registry)
    made = {
        "project": project_schema(plugins),
        "connections": connections_schema(plugins),
        "sidecar": sidecar_schema(plugins),
    }
    return made, list({(e.code, e.message): e for e in plugins.faults}.values())


def write_schemas(folder: Path, schemas: dict[str, Any]) -> list[Path]:
    """Write each schema as a file of its own, whole; the same schemas make the same bytes.

    Raises:
        OSError: if the folder cannot be written.
    """
    from pz_core.values.atomic import write_whole

    written = []
    for name, schema in schemas.items():
        path = folder / f"{name}.schema.json"
        write_whole(path, json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
        written.append(path)
    return written


def project_registry(project: Path) -> Registry:
    """What a project may use, whatever else is wrong with it; all that is installed where there is no project."""
    from pz_core import __version__
    from pz_core.errors import Problems
    from pz_core.plugins import Registry
    from pz_core.project.project_file import FILE, read_identity
    from pz_core.project.yaml import read_yaml

    path = project / FILE
    block = read_yaml(path, FILE, Problems()) if path.is_file() else None
    if block is None:
        return Registry()
    return read_identity(block, os.environ, __version__, Problems()).registry(project.resolve())


def _shown(path: Path) -> str:
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)
