"""What a lock holds, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from pz_core.errors import Where

#: Name of the file that a lock is kept in.
LOCK_FILE = "pz.lock.json"
#: The environment that pz itself runs in.
MAIN = "main"
#: Distribution of the core. A lock records which versions of it fit, never one version and never a hash.
CORE = "pz-core"


class Wanted(Struct, frozen=True):
    """A package that a project lists.

    Args:
        name: normalised after PEP 503.
        specifier: PEP 440 text; empty for any version.
        project: the project's folder relative to the lock, ``.`` for the lock's own.
        where: the place in that project's ``project.yml``.
        environment: ``main``, or the name of the isolated package whose environment it belongs to.
    """

    name: str
    specifier: str
    project: str
    where: Where = Where()
    environment: str = MAIN


class LockedFile(NamedTuple):
    """A file that the index has for a version; ``name`` is empty where it is not known.

    A tuple, because every run reads a lock, and a lock has hundreds of these.
    """

    name: str
    sha256: str


class LockedPackage(Struct, frozen=True):
    """A package of an environment.

    Args:
        name: normalised after PEP 503.
        version: exact; empty for the core, which has a ``range``.
        files: all files of that version, sorted; empty for the core and for a local package.
        markers: where it is needed, a PEP 508 marker; empty for everywhere.
        requires: names of packages that it needs itself, sorted.
        entry_points: of the group ``pz``: name to module.
        path: folder of a local package, relative to the lock; ``None`` for one of an index.
        range: versions of the core that every plugin accepts.
    """

    name: str
    version: str = ""
    files: tuple[LockedFile, ...] = ()
    markers: str = ""
    requires: tuple[str, ...] = ()
    entry_points: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None
    range: str | None = None

    @property
    def is_core(self) -> bool:
        """Whether it is the entry of the core."""
        return self.name == CORE


class Lock(Struct, frozen=True):
    """The whole lock.

    Args:
        requires_python: PEP 440 text.
        projects: folders relative to the lock, with forward slashes, sorted.
        environments: packages of each environment, sorted by name, version and markers.
    """

    requires_python: str
    projects: tuple[str, ...]
    environments: Mapping[str, tuple[LockedPackage, ...]]

    def packages(self, environment: str = MAIN) -> tuple[LockedPackage, ...]:
        """The packages of an environment, none if there is no such environment."""
        return tuple(self.environments.get(environment, ()))


def readable(specifier: str) -> str:
    """A specifier with its lower bounds first: ``>=1,<2``."""
    parts = {part.strip() for part in specifier.split(",") if part.strip()}
    return ",".join(sorted(parts, key=lambda part: (part[0] != ">", part)))
