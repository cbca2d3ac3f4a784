"""What verbs need of the lock: the packages that projects list, and the check before a plan."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pz_core import __version__
from pz_core.cli import output
from pz_core.errors import Notice, PzErrors, Where

if TYPE_CHECKING:
    from pz_core.compile.model import Graph
    from pz_core.packages.lockfile import FoundLock
    from pz_core.packages.model import Wanted
    from pz_core.plugins import Registry
    from pz_core.project.model import PackageRequirement


_INSIST = "; --no-lock-check runs all the same"


def wanted_by(listed: Iterable[PackageRequirement], project: str = ".") -> tuple[Wanted, ...]:
    """What a project lists, in the words of the lock.

    Args:
        listed: entries of ``connectors:`` and ``plugins:``.
        project: the project's folder relative to the lock, which then stands in the place of every fault.
    """
    from pz_core.packages.model import MAIN, Wanted

    lead = "" if project == "." else f"{project}/"
    return tuple(
        Wanted(
            item.name,
            item.specifier,
            project,
            Where(f"{lead}{item.where.file}", item.where.line),
            item.name if item.isolation else MAIN,
        )
        for item in listed
    )


def check_lock(graph: Graph, registry: Registry, *, skip: bool) -> None:
    """Refuse a lock that does not fit ``project.yml`` or the environment; a lock that is missing is a note.

    Args:
        graph: the compiled project.
        registry: what is installed.
        skip: ``--no-lock-check``.

    Raises:
        PzErrors: PZ0321 and PZ0323, or PZ0101 for a lock that cannot be read.
    """
    project = graph.project
    listed = (*project.connectors, *project.plugins)
    if skip or not listed:
        return
    from pz_core.packages.fitting import not_installed, third_party, unlocked
    from pz_core.packages.lockfile import find_lock

    found, notes = find_lock(project.root)
    output.tell_notices(notes)
    wanted = wanted_by(listed)
    if found is None:
        foreign = third_party(wanted)
        if foreign:
            message = f"{', '.join(foreign)} may be any version that project.yml allows: there is no pz.lock.json"
            output.tell_notices([Notice("note", message, hint="pz deps lock pins them")])
        return
    faults = [*unlocked(found.lock, wanted), *not_installed(found.lock, registry.version, __version__, insist=_INSIST)]
    isolated = [item.name for item in listed if item.isolation]
    if isolated:
        from pz_core.packages.fitting import not_as_locked
        from pz_core.plugins.isolation.environment import environments

        for environment in environments(project.root, isolated).values():
            faults += not_as_locked(found.lock, environment, insist=_INSIST)
    if faults:
        raise PzErrors(faults)


def wanted_by_all(projects: Iterable[str], folder: Path) -> tuple[Wanted, ...]:
    """What all projects of a lock list.

    Args:
        projects: their folders relative to the lock.
        folder: of the lock.

    Raises:
        PzErrors: all faults of the first project that cannot be read.
    """
    from pz_core.project.packages_only import load_requirements

    made: list[Wanted] = []
    for name in projects:
        try:
            made += wanted_by(load_requirements(folder / name), name)
        except PzErrors as errors:
            if name == ".":
                raise
            placed = [fault.at(Where(f"{name}/{fault.where.file}", fault.where.line)) for fault in errors.errors]
            raise PzErrors(placed, errors.notices) from errors
    return tuple(made)


def needed_lock(project: Path) -> FoundLock:
    """The lock of a project.

    Raises:
        PzError: PZ0322 if there is none.
    """
    from pz_core.errors import PzError
    from pz_core.packages.lockfile import find_lock

    found, notes = find_lock(project)
    output.tell_notices(notes)
    if found is None:
        raise PzError(
            "PZ0322",
            "there is no pz.lock.json in the project or above it",
            hint="run pz deps lock and commit the file",
        )
    return found
