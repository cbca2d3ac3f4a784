"""Makes a lock, and says how two locks differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from pz_core.errors import Notice, PzError
from pz_core.packages.lockfile import FoundLock, folders_upwards, relative
from pz_core.packages.metadata import Described, local_package, running_core
from pz_core.packages.model import CORE, LOCK_FILE, MAIN, Lock, LockedPackage, Wanted
from pz_core.packages.resolve import Request, resolve
from pz_core.packages.uv import Uv


class Change(Struct, frozen=True):
    """A package that differs between two locks; ``before`` or ``after`` is ``None`` where it is not there."""

    environment: str
    name: str
    before: str | None
    after: str | None

    @property
    def line(self) -> str:
        """``+ name 1.0``, ``- name 1.0`` or ``~ name 1.0 -> 1.1``; other environments than main are named."""
        place = "" if self.environment == MAIN else f" (environment {self.environment})"
        if self.before is None:
            return f"+ {self.name} {self.after}{place}"
        if self.after is None:
            return f"- {self.name} {self.before}{place}"
        if self.before == self.after:
            return f"~ {self.name} {self.after}: files, markers or requirements{place}"
        return f"~ {self.name} {self.before} -> {self.after}{place}"


def place_for(project: Path, local: Sequence[Path]) -> Path:
    """The folder for a new lock: the project's own, or the nearest above it that holds all local packages too.

    Args:
        project: the project's folder.
        local: absolute folders of local packages.

    Raises:
        PzError: PZ0320 if no folder up to the repository's root holds them all.
    """
    for folder in folders_upwards(project):
        if all(relative(path, folder) is not None for path in local):
            return folder
    raise PzError(
        "PZ0320",
        "a --local folder stands outside of the repository, and a lock only knows packages below its own folder",
        hint="put the package into the repository, or publish it to an index",
    )


def make_lock(
    folder: Path,
    wanted: Iterable[Wanted],
    projects: Iterable[str],
    local: Sequence[Path],
    uv: Uv,
    *,
    earlier: Lock | None = None,
    upgrade: frozenset[str] | None = frozenset(),
) -> tuple[Lock, tuple[Notice, ...]]:
    """Resolve everything and give the lock; nothing is written.

    Args:
        folder: where the lock stands or will stand.
        wanted: what all projects list.
        projects: their folders, relative to the lock.
        local: folders of local packages; those of the earlier lock are taken too.
        uv: the resolver.
        earlier: the lock that stands now.
        upgrade: names whose version may change; ``None`` for all.

    Raises:
        PzError: PZ0320, PZ0327, PZ0328, PZ0329.
    """
    listed = tuple(wanted)
    packages = _locals(folder, local, earlier)
    core = running_core()
    lowest = _lowest_python((core, *packages))
    request = Request(listed, packages, core, lowest, earlier, upgrade)
    made: dict[str, tuple[LockedPackage, ...]] = {}
    notices: list[Notice] = []
    for environment in sorted({MAIN, *(item.environment for item in listed)}):
        made[environment], told = resolve(request, environment, uv)
        notices += told
    return Lock(f">={lowest}", tuple(sorted(set(projects))), made), tuple(notices)


def differences(before: Lock | None, after: Lock) -> tuple[Change, ...]:
    """The packages that differ, by environment and name."""
    made: list[Change] = []
    old: Mapping[str, tuple[LockedPackage, ...]] = {} if before is None else before.environments
    for environment in sorted({*old, *after.environments}):
        first, second = _by_name(old.get(environment, ())), _by_name(after.environments.get(environment, ()))
        made += [
            Change(environment, name, _versions(first.get(name)), _versions(second.get(name)))
            for name in sorted({*first, *second})
            if first.get(name) != second.get(name)
        ]
    return tuple(made)


def shared_projects(found: FoundLock | None, folder: Path, project: Path) -> tuple[tuple[str, ...], tuple[Notice, ...]]:
    """The projects that a lock is for: those it names that are still there, and this one.

    Returns:
        Their folders relative to the lock, and a note for each that is gone.
    """
    named = found.lock.projects if found else ()
    there = {name for name in named if (folder / name / "project.yml").is_file()}
    gone = [
        Notice("note", f"{name} has no project.yml any more, so {LOCK_FILE} drops it")
        for name in named
        if name not in there
    ]
    own = relative(project, folder)
    return tuple(sorted(there | ({own} if own is not None else set()))), tuple(gone)


def _locals(folder: Path, local: Sequence[Path], earlier: Lock | None) -> tuple[Described, ...]:
    paths = {str(relative(path, folder)): path for path in local}
    for package in [p for packages in earlier.environments.values() for p in packages] if earlier else ():
        if package.path is not None and (folder / package.path / "pyproject.toml").is_file():
            paths.setdefault(package.path, folder / package.path)
    found = [local_package(path, shown) for shown, path in sorted(paths.items())]
    names: dict[str, Described] = {}
    for read in found:
        other = names.setdefault(read.name, read)
        if other is not read:
            raise PzError(
                "PZ0320",
                f"{other.path} and {read.path} both hold {read.name}",
                hint=f"name one of them; remove {LOCK_FILE} if the other one was locked earlier",
            )
    return tuple(sorted((package for package in found if package.name != CORE), key=lambda package: package.name))


def _lowest_python(packages: Sequence[Described]) -> str:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    lowest = [
        Version(part.version)
        for package in packages
        for part in SpecifierSet(package.requires_python)
        if part.operator in (">=", "~=", "==") and "*" not in part.version
    ]
    return str(max(lowest, default=Version("3.11")))


def _by_name(packages: Iterable[LockedPackage]) -> dict[str, tuple[LockedPackage, ...]]:
    made: dict[str, tuple[LockedPackage, ...]] = {}
    for package in packages:
        made[package.name] = (*made.get(package.name, ()), package)
    return made


def _versions(packages: tuple[LockedPackage, ...] | None) -> str | None:
    return None if packages is None else " and ".join(p.version or p.range or "any version" for p in packages)
