"""The two keys of ``project.yml`` that management verbs need, read from a project that may be broken otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pz_core.errors import Problems, Where
from pz_core.plugins.registry import Registry
from pz_core.project import project_file
from pz_core.project.connections import load_connections, names_in
from pz_core.project.engine_config import read_retention
from pz_core.project.interpolate import withhold_environment
from pz_core.project.loader import open_project_file
from pz_core.project.model import StateConfig
from pz_core.project.state_config import read_state, resolve_state
from pz_core.project.yaml import Block, Text


def load_state_config(root: Path, environ: Mapping[str, str] | None = None) -> tuple[StateConfig, int | None]:
    """``state:`` and ``retention:`` of a project, and of ``connections.yml`` the one entry that ``state:`` names.

    Faults elsewhere in the project are not looked at, so that runs and state can be inspected and repaired.

    Args:
        root: the project's folder.
        environ: environment variables; the process's own by default.

    Returns:
        The state's configuration and ``keep_last`` (``None`` for ``off``; the default where it is malformed).

    Raises:
        PzErrors: PZ0101 without a readable ``project.yml``; PZ0124, PZ0125 and faults of the one connection.
    """
    environ = os.environ if environ is None else environ
    root = root.resolve()
    unused = Problems()
    block = open_project_file(root, unused)
    if block is None:
        unused.raise_if_any()
        raise AssertionError("an unusable file was not reported")
    problems = Problems()
    registry = Registry()
    entry = block.fields.get("state")
    state = read_state(entry, project_file.FILE, environ, registry, problems)
    name = state.settings.get("connection")
    connections = load_connections(root, environ, registry, problems, only=name) if isinstance(name, str) else {}
    variables = [v for c in (connections or {}).values() for v in c.variables]
    withhold_environment(variables, environ, names_in(connections or {}))
    resolve_state_place = Where(project_file.FILE, None if entry is None else entry.line)
    state = resolve_state(state, connections, environ, resolve_state_place, problems)
    problems.raise_if_any()
    state = replace(state, project=_name_of(block))
    return state, read_retention(block.fields.get("retention"), project_file.FILE, unused)


def _name_of(block: Block) -> str:
    """The project's name, as far as it can be read."""
    entry = block.fields.get("name")
    return entry.node.text.strip() if entry is not None and isinstance(entry.node, Text) else ""
