"""``pz validate``: all that can be known before a run, tier by tier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.locks import check_lock
from pz_core.cli.options import json_option, lock_option, project_options
from pz_core.cli.prepare import open_graph
from pz_core.errors import Notice
from pz_core.render.text import plural

if TYPE_CHECKING:
    from pz_core.compile.dry import DryReport


@click.command()
@click.option("--connect", is_flag=True, help="Reach every connection too, 30 seconds at most for each.")
@project_options
@lock_option
@json_option
def validate(project: Path, vars_json: str | None, connect: bool, no_lock_check: bool, as_json: bool) -> None:
    """Check files, templates, options and SQL without running anything.

    Each tier reports all that it finds; the next one starts when it found nothing.
    """
    from pz_core.compile.dry import dry_compile
    from pz_core.plan.options import check_options

    graph, registry = open_graph(project, vars_json)
    notices = [*check_options(graph, registry)]
    output.tell_notices(notices)
    dry = _dry_notices(dry_compile(graph))
    output.tell_notices(dry)
    notices += dry
    check_lock(graph, registry, skip=no_lock_check)
    if connect:
        from pz_core.cli.probe import check_connections

        reached = check_connections(graph.project, registry)
        output.tell_notices(reached)
        notices += reached
    pipelines, connections = len(graph.project.pipelines), len(graph.project.connections)
    if as_json:
        document: dict[str, Any] = {
            "passed": True,
            "pipelines": pipelines,
            "connections": connections,
            "connected": connect,
            "notices": [dict(n.as_dict()) for n in dict.fromkeys([*graph.notices, *notices])],
        }
        output.say_json(document)
        return
    output.say(f"validation passed ({_counted(pipelines, 'pipeline')}, {_counted(connections, 'connection')} checked)")


def _counted(number: int, word: str) -> str:
    return f"{number} {word}s"


def _dry_notices(report: DryReport) -> list[Notice]:
    """What tier 4 could not look at, and why."""
    if not report.undeclared:
        return []
    skipped = plural(len(report.skipped), "pipeline")
    message = f"no columns: are declared for {', '.join(report.undeclared)}; {skipped} below not bound"
    return [Notice("note", message, hint="declare columns: there to have the SQL checked before a run")]
