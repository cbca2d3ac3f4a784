"""The first steps of most verbs: load and compile, telling what was noticed on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pz_core.cli import output
from pz_core.errors import Notice, PzErrors

if TYPE_CHECKING:
    from pz_core.compile.model import Graph, Node, RunConstants
    from pz_core.plugins import Registry
    from pz_core.project import Loaded


def open_project(project: Path, vars_json: str | None = None) -> Loaded:
    """Load the project and tell its notices.

    Args:
        project: its directory.
        vars_json: the text of ``--vars``.

    Raises:
        PzErrors: all faults of tier 1.
    """
    from pz_core.project import load_project

    loaded = load_project(project.absolute(), vars_json=vars_json)
    output.tell_notices(loaded.notices)
    return loaded


def open_graph(
    project: Path, vars_json: str | None = None, constants: RunConstants | None = None, *, keep: bool = False
) -> tuple[Graph, Registry]:
    """Load and compile the project and tell the notices of both. What earlier compiles made is used again.

    Args:
        project: its directory.
        vars_json: the text of ``--vars``.
        constants: those of a run.
        keep: keep what was made now for later compiles; for verbs that may write to ``.pz/target``.

    Raises:
        PzErrors: all faults of the first tier that has any.
    """
    from pz_core.compile.cache import CompileCache
    from pz_core.compile.graph import compile_project
    from pz_core.compile.model import RunConstants

    loaded = open_project(project, vars_json)
    cache = CompileCache.of(loaded)
    try:
        graph = compile_project(loaded, constants=constants or RunConstants(), cache=cache)
    except PzErrors as errors:
        raise PzErrors(errors.errors, _new(errors.notices, loaded.notices)) from errors
    if keep:
        cache.save()
    output.tell_notices(_new(graph.notices, loaded.notices))
    return graph, loaded.registry


def _new(notices: tuple[Notice, ...], told: tuple[Notice, ...]) -> list[Notice]:
    return [notice for notice in notices if notice not in told]


def tags_of(node: Node) -> tuple[str, ...]:
    """Tags of a node; only pipelines have any."""
    return tuple(getattr(node, "tags", ()))
