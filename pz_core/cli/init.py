"""``pz init``: start a project from a template."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pz_core.cli import output
from pz_core.cli.templates import DEFAULT, TEMPLATES, Template
from pz_core.errors import Notice, PzError


@click.command()
@click.argument("directory", required=False, metavar="DIR")
@click.option(
    "-t", "--template", "template_id", metavar="ID", default=DEFAULT, show_default=True, help="Template to copy."
)
@click.option("--list-templates", "list_templates", is_flag=True, help="List the templates and stop.")
def init(directory: str | None, template_id: str, list_templates: bool) -> None:
    """Start a project in DIR, a new or empty directory; . is the current one."""
    if list_templates == (directory is not None):
        given = "both" if list_templates else "neither"
        hint = "pz init NAME makes a project, pz init --list-templates lists templates"
        raise PzError("PZ0132", f"a directory or --list-templates is needed, {given} was given", hint=hint)
    if list_templates:
        rows = [(t.id + (" (default)" if t.id == DEFAULT else ""), t.summary, t.runs) for t in TEMPLATES.values()]
        output.say_all(output.table(rows, [20, 40]))
        return
    template = TEMPLATES.get(template_id)
    if template is None:
        raise PzError("PZ0131", f"unknown template '{template_id}'", hint=f"known: {', '.join(TEMPLATES)}")
    target = Path(directory or ".")
    _refuse_occupied(target)
    leaf = target.resolve().name
    name = project_name(leaf)
    if name != leaf:
        message = f"the project is called '{name}', since '{leaf}' is no name for a project"
        output.tell(Notice("warning", message).render())
    _write(template, target, name)
    _write_schemas(target)
    output.say(f"scaffolded '{name}' from template {template.id} at {target.resolve()}")
    output.say("next:")
    if target.resolve() != Path.cwd().resolve():
        output.say(f"  cd {_quoted(str(target))}")
    for step in template.next_steps:
        output.say(f"  {step}")


def project_name(leaf: str) -> str:
    """A directory's name as a project's: lower case, digits and underscores, beginning with a letter."""
    folded = re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "_", leaf.lower())).strip("_")
    return folded if re.match("[a-z]", folded) else f"p_{folded}".rstrip("_")


def _refuse_occupied(target: Path) -> None:
    if target.is_dir():
        # A repository that was only just begun is empty for our purpose.
        if any(item.name != ".git" for item in target.iterdir()):
            raise PzError("PZ0130", f"directory {target} is not empty", hint="name a new or an empty directory")
    elif target.exists() or target.is_symlink():
        raise PzError("PZ0130", f"{target} exists and is no directory", hint="name a new or an empty directory")


def _write(template: Template, target: Path, name: str) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path, content in template.contents(name):
        file = target.joinpath(*path.parts)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _write_schemas(target: Path) -> None:
    """Write the schemas that the template's files point to. A plugin in the way is no reason not to start a project."""
    try:
        from pz_core.cli.schema_export import FOLDER, make_schemas, project_registry, write_schemas

        schemas, _ = make_schemas(project_registry(target))
        write_schemas(target / FOLDER, schemas)
    except Exception as error:  # noqa: BLE001 - whatever a plugin does, the project is there and can be used
        output.note(f"no schemas for editors ({type(error).__name__}); pz schema export writes them")


def _quoted(path: str) -> str:
    return path if re.fullmatch(r"[\w@%+=:,./\\-]+", path) else f'"{path}"'
