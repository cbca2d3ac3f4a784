"""``pz schema``: the columns that are accepted of datasets without a contract, and schemas of the project's files."""

from __future__ import annotations

from pathlib import Path

import click

from pz_core.cli import output
from pz_core.cli.management import project_root
from pz_core.cli.options import json_option, project_option
from pz_core.cli.schema_export import export


@click.group()
def schema() -> None:
    """Accept the columns that a source has now, or write the JSON Schemas that editors use."""


schema.add_command(export)


@schema.command()
@click.argument("targets", nargs=-1)
@project_option
@json_option
def accept(targets: tuple[str, ...], project: Path, as_json: bool) -> int:
    """Accept the columns that the latest run saw. No source is asked.

    TARGETS are datasets (connection.entity); without any, all that have changed.
    """
    from pz_core.run.schema_admin import accept as accept_columns

    made = accept_columns(project_root(project), targets)
    if as_json:
        output.say_json(
            [{"dataset": item.dataset, "changes": [change.as_dict() for change in item.changes]} for item in made]
        )
        return 0
    lines = [f"{item.dataset}: {change}" for item in made for change in item.changes]
    count = len(made)
    total = f"{len(lines)} changes of {count} {'dataset' if count == 1 else 'datasets'} accepted"
    output.say_all([*lines, total] if lines else ["nothing to accept"])
    return 0
