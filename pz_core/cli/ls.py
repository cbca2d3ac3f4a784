"""``pz ls``: the nodes of the project in execution order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.options import json_option, project_options, select_option
from pz_core.cli.prepare import open_graph, tags_of

if TYPE_CHECKING:
    from pz_core.compile.model import Node


@click.command()
@project_options
@select_option
@json_option
def ls(project: Path, vars_json: str | None, expression: str | None, as_json: bool) -> None:
    """List the nodes of the project in execution order. Writes nothing."""
    graph, _ = open_graph(project, vars_json)
    nodes = graph.nodes
    if expression is not None:
        from pz_core.compile.select import select

        chosen = select(graph, expression=expression)
        nodes = tuple(node for node in nodes if node.id in chosen)
    if as_json:
        output.say_json([node_as_dict(node) for node in nodes])
        return
    rows = [(node.kind.manifest_word, node.name, ",".join(tags_of(node)) or "-") for node in nodes]
    output.say_all(output.table(rows, [10, 40]))


def node_as_dict(node: Node) -> dict[str, Any]:
    """A node as ``--json`` shows it."""
    return {
        "id": node.id,
        "kind": node.kind.manifest_word,
        "name": node.name,
        "tags": list(tags_of(node)),
        "dependsOn": sorted(node.depends_on),
        "file": getattr(node, "file", node.where.file),
    }
