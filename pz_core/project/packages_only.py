"""``connectors:`` and ``plugins:`` of a project, read from one that may be broken otherwise."""

from __future__ import annotations

from pathlib import Path

from pz_core.errors import Problems
from pz_core.project import project_file
from pz_core.project.loader import open_project_file
from pz_core.project.model import PackageRequirement
from pz_core.project.requirements import read_requirements, refuse_two_versions


def load_requirements(root: Path) -> tuple[PackageRequirement, ...]:
    """What a project lists, for verbs that install what it lacks: no plugin is needed to read it.

    Args:
        root: the project's folder.

    Raises:
        PzErrors: PZ0101 without a readable ``project.yml`` or for a malformed entry; PZ0139.
    """
    problems = Problems()
    block = open_project_file(root.resolve(), problems)
    listed: tuple[PackageRequirement, ...] = ()
    for key in ("connectors", "plugins"):
        entry = None if block is None else block.fields.get(key)
        if entry is not None:
            listed += read_requirements(entry, project_file.FILE, problems)
    refuse_two_versions(listed, problems)
    problems.raise_if_any()
    return listed
