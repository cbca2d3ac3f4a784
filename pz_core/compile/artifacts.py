"""What compiling leaves: ``manifest.json`` and ``compiled/*.sql``, each written whole, the same bytes every time."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pz_core import __version__
from pz_core.compile.model import Graph, Node, PipelineNode
from pz_core.values.atomic import write_whole


def compiled_text(node: PipelineNode) -> str:
    """The compiled file of a pipeline: generated header lines, its SQL, one line end."""
    return "\n".join((*node.headers, node.sql)) + "\n"


def manifest_text(graph: Graph, selection: Collection[str] | None = None) -> str:
    """``manifest.json``: nodes in execution order, two spaces of indent, no clock and no value of the environment.

    Args:
        graph: the compiled project.
        selection: ids of the nodes to list, all by default.
    """
    content = {
        "project": graph.project.name,
        "version": graph.project.version,
        "generatedBy": f"pz-core {__version__}",
        "nodes": [_entry(n) for n in graph.nodes if selection is None or n.id in selection],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _entry(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "kind": node.kind.manifest_word,
        "name": node.name,
        "dependsOn": sorted(node.depends_on),
        "tags": list(node.tags) if isinstance(node, PipelineNode) else [],
        "file": node.file if isinstance(node, PipelineNode) else node.where.file,
    }


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
    for old in compiled.glob("*.sql"):
        if old.name not in known:
            old.unlink(missing_ok=True)
    _write(target / "manifest.json", manifest_text(graph, selection))
    return target


def _write(path: Path, text: str) -> None:
    # An unchanged file is left alone: most compiles change one pipeline of many.
    try:
        if path.read_bytes() == text.encode():
            return
    except OSError:
        pass
    write_whole(path, text)
