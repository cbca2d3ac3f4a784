"""``pz compile``: render the pipelines and write what the compiler made of them."""

from __future__ import annotations

from pathlib import Path

import click

from pz_core.cli import output
from pz_core.cli.ls import node_as_dict
from pz_core.cli.options import json_option, project_options, select_option
from pz_core.cli.prepare import open_graph
from pz_core.render.text import plural


@click.command("compile")
@project_options
@select_option
@json_option
def compile_(project: Path, vars_json: str | None, expression: str | None, as_json: bool) -> None:
    """Render the pipelines and write .pz/target/manifest.json and .pz/target/compiled/*.sql. Runs nothing."""
    from pz_core.compile.artifacts import write_target

    graph, _ = open_graph(project, vars_json, keep=True)
    selection = None
    if expression is not None:
        from pz_core.compile.select import select

        selection = select(graph, expression=expression)
    target = write_target(graph, selection)
    nodes = [node for node in graph.nodes if selection is None or node.id in selection]
    shown = _relative(target, graph.project.root)
    if as_json:
        output.say_json(
            {
                "project": graph.project.name,
                "target": shown,
                "nodes": [node_as_dict(node) for node in nodes],
                "notices": [dict(notice.as_dict()) for notice in graph.notices],
            }
        )
        return
    pipelines = sum(1 for node in nodes if node.kind.manifest_word == "pipeline")
    output.say(f"compiled {plural(pipelines, 'pipeline')}, {plural(len(nodes), 'node')} ({shown})")


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
