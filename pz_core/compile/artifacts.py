"""What compiling leaves: ``manifest.json`` and ``compiled/*.sql``, each written whole, the same bytes every time."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

from pz_core import __version__
from pz_core.compile.model import Graph, Node, PipelineNode
from pz_core.values.atomic import write_whole

_json = json.JSONEncoder(ensure_ascii=False).encode


def compiled_text(node: PipelineNode) -> str:
    """The compiled file of a pipeline: generated header lines, its SQL, one line end."""
    return "\n".join((*node.headers, node.sql)) + "\n"


def manifest_text(graph: Graph, selection: Collection[str] | None = None) -> str:
    """``manifest.json``: nodes in execution order, two spaces of indent, no clock and no value of the environment.

    Args:
        graph: the compiled project.
        selection: ids of the nodes to list, all by default.
    """
    # Laid out by hand: json's own indenting encoder takes longer than all the rest of a compile.
    nodes = [_entry(n) for n in graph.nodes if selection is None or n.id in selection]
    lines = [
        "{",
        f'  "project": {_json(graph.project.name)},',
        f'  "version": {_json(graph.project.version)},',
        f'  "generatedBy": {_json(f"pz-core {__version__}")},',
        f'  "nodes": {_list(nodes, "  ")}',
        "}",
    ]
    return "\n".join(lines) + "\n"


def _entry(node: Node) -> str:
    tags = node.tags if isinstance(node, PipelineNode) else ()
    file = node.file if isinstance(node, PipelineNode) else node.where.file
    return (
        "{\n"
        f'      "id": {_json(node.id)},\n'
        f'      "kind": {_json(node.kind.manifest_word)},\n'
        f'      "name": {_json(node.name)},\n'
        f'      "dependsOn": {_list([_json(id) for id in sorted(node.depends_on)], "      ")},\n'
        f'      "tags": {_list([_json(tag) for tag in tags], "      ")},\n'
        f'      "file": {_json(file)}\n'
        "    }"
    )


def _list(items: list[str], indent: str) -> str:
    """A JSON list, one item a line."""
    return "[" + ",".join(f"\n{indent}  {item}" for item in items) + f"\n{indent}]" if items else "[]"


def write_target(graph: Graph, selection: Collection[str] | None = None) -> Path:
    """Write ``.pz/target/manifest.json`` and ``.pz/target/compiled/*.sql``.

    Compiled files of pipelines that the project no longer has are removed.

    Args:
        graph: the compiled project.
        selection: ids of the nodes to write, all by default.

    Returns:
        The folder ``.pz/target``.

    Raises:
        OSError: if the folder cannot be written.
    """
    target = graph.project.dot_pz / "target"
    compiled = target / "compiled"
    compiled.mkdir(parents=True, exist_ok=True)
    pipelines = [n for n in graph.nodes if isinstance(n, PipelineNode)]
    for node in pipelines:
        if selection is None or node.id in selection:
            _write(compiled / f"{node.name}.sql", compiled_text(node))
    known = {f"{node.name}.sql" for node in pipelines}
    with os.scandir(compiled) as entries:
        gone = [entry.path for entry in entries if entry.name.endswith(".sql") and entry.name not in known]
    for old in gone:
        Path(old).unlink(missing_ok=True)
    _write(target / "manifest.json", manifest_text(graph, selection))
    return target


def _write(path: Path, text: str) -> None:
    # An unchanged file is left alone: most compiles change one pipeline of many.
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - Path.open costs as much again
            if file.read() == text.encode():
                return
    except OSError:
        pass
    write_whole(path, text)
