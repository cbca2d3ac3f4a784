"""Loads a project: every file, every fault, in one go."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from msgspec import Struct, structs

from pz_core import __version__
from pz_core.errors import Notice, Problems, PzError, PzErrors, Where
from pz_core.plugins.registry import Registry
from pz_core.project import connections as connections_file
from pz_core.project import project_file
from pz_core.project.connections import load_connections, names_in
from pz_core.project.engine_config import read_engine, read_retention
from pz_core.project.interpolate import withhold_environment
from pz_core.project.model import Project, Sidecar
from pz_core.project.pipelines import find_files, load_pipelines, warn_yaml
from pz_core.project.project_file import read_identity, vars_from_json
from pz_core.project.retired import refuse_directories
from pz_core.project.sidecars import load_sidecars
from pz_core.project.state_config import read_state, resolve_state
from pz_core.project.yaml import Block, read_yaml
from pz_core.values.collection import paused_collection


class Loaded(Struct, frozen=True):
    """A loaded project, with the plugins that it may use and what was noticed on the way."""

    project: Project
    registry: Registry
    notices: tuple[Notice, ...] = ()


def load_project(root: Path, *, environ: Mapping[str, str] | None = None, vars_json: str | None = None) -> Loaded:
    """Load ``project.yml``, ``connections.yml``, the pipelines and their sidecars.

    A file that cannot be read is one fault and hides no other file's faults.

    Args:
        root: the project's folder.
        environ: environment variables; the process's own by default.
        vars_json: text of ``--vars``, a JSON object that replaces variables one by one.

    Raises:
        PzErrors: all faults of all files together, sorted by file and line.
    """
    with paused_collection():
        return _load(root.resolve(), os.environ if environ is None else environ, vars_json)


def _load(root: Path, environ: Mapping[str, str], vars_json: str | None) -> Loaded:
    problems = Problems()
    block = open_project_file(root, problems)
    given = {} if vars_json is None else vars_from_json(vars_json, problems)
    identity = project_file.Identity() if block is None else read_identity(block, environ, __version__, problems)
    registry = identity.registry(root)
    fields = {} if block is None else block.fields
    engine = read_engine(fields.get("engine"), project_file.FILE, registry, problems)
    retention = read_retention(fields.get("retention"), project_file.FILE, problems)
    warn_renamed(root, connections_file.FILE, problems)
    connections = load_connections(root, environ, registry, problems)
    refuse_directories(root, problems)
    state = read_state(fields.get("state"), project_file.FILE, environ, registry, problems)
    state = resolve_state(state, connections, environ, _state_place(block), problems)
    found = find_files(root, problems)
    pipelines = load_pipelines(root, found.sql, problems)
    names = frozenset(pipeline.name for pipeline in pipelines)
    sidecars = load_sidecars(root, found.sidecars, names, registry, problems)
    withhold_environment(
        (*identity.env, *identity.variables, *(v for c in (connections or {}).values() for v in c.variables)),
        environ,
        (*names, *names_in(connections or {})),
    )
    problems.raise_if_any()
    project = Project(
        root=root,
        name=identity.name,
        version=identity.version,
        connectors=identity.connectors,
        plugins=identity.plugins,
        env=identity.env,
        vars={**identity.vars, **given},
        outside_vars=identity.outside_vars | frozenset(given),
        engine=engine,
        retention=retention,
        state=replace(state, project=identity.name),
        on_source_drift=identity.on_source_drift,
        connections=connections or {},
        pipelines=tuple(structs.replace(p, sidecar=sidecars.get(p.name, Sidecar())) for p in pipelines),
    )
    return Loaded(project, registry, tuple(sorted(problems.notices, key=lambda n: n.where.sort_key)))


def open_project_file(root: Path, problems: Problems) -> Block | None:
    """Read ``project.yml``; ``None`` if it cannot be used, which is a fault.

    Raises:
        PzErrors: PZ0101 if there is none, alone: a folder without one is no project.
    """
    warn_renamed(root, project_file.FILE, problems)
    path = root / project_file.FILE
    if not os.path.lexists(path):  # no exists(): a link that leads nowhere is told as what it is
        renamed = (root / "project.yaml").exists()
        hint = (
            "rename project.yaml to project.yml"
            if renamed
            else "change into a project's folder, or make one with pz init"
        )
        error = PzError("PZ0101", "there is no project.yml here", where=Where(project_file.FILE), hint=hint)
        raise PzErrors([error], problems.notices)
    return read_yaml(path, project_file.FILE, problems)


def warn_renamed(root: Path, file: str, problems: Problems) -> None:
    """PZ0135 for a file of the project's root that ends in ``.yaml``."""
    other = file[: -len(".yml")] + ".yaml"
    if (root / other).exists():
        warn_yaml(other, problems)


def _state_place(block: Block | None) -> Where:
    return Where(project_file.FILE, block.line_of("state") if block is not None and "state" in block.fields else None)
