"""What verbs that manage a project's history need of it: that it is one. A broken project must not stop them."""

from __future__ import annotations

from pathlib import Path

from pz_core.errors import PzError, Where


def project_root(project: Path) -> Path:
    """The absolute directory of a project, which need not load.

    Args:
        project: as given by ``--project``.

    Raises:
        PzError: PZ0101 if there is no ``project.yml``, so that a stray ``.pz`` elsewhere is never touched.
    """
    root = project.absolute()
    if not (root / "project.yml").is_file():
        raise PzError(
            "PZ0101",
            f"there is no project.yml in {root}",
            where=Where("project.yml"),
            hint="go to the project's directory or name it with --project DIR; pz init starts a new one",
        )
    return root
