"""Does a lock fit what a project lists, and what is installed? Versions only, so that every run can ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from pz_core.errors import PzError, Where
from pz_core.packages.model import LOCK_FILE, MAIN, Lock, LockedPackage, Wanted, readable

if TYPE_CHECKING:
    from pz_core.plugins.isolation.environment import Environment

#: Gives the installed version of a distribution, ``None`` if there is none.
VersionOf = Callable[[str], "str | None"]


def unlocked(lock: Lock, wanted: Iterable[Wanted]) -> tuple[PzError, ...]:
    """PZ0323 for each listed package that the lock lacks or has in a version that is not asked for."""
    made: list[PzError] = []
    for item in wanted:
        locked = [package for package in lock.packages(item.environment) if package.name == item.name]
        others = [package.version for package in locked if not satisfies(package.version, item.specifier)]
        if not locked:
            message = f"project.yml lists {item.name}{_range(item)}, and {LOCK_FILE} does not have it"
        elif others:
            message = f"project.yml lists {item.name}{_range(item)}, and {LOCK_FILE} has {others[0]}"
        else:
            continue
        made.append(PzError("PZ0323", message, where=item.where, hint="run pz deps lock and commit the file"))
    return tuple(made)


def not_as_locked(lock: Lock, environment: Environment, *, insist: str = "") -> tuple[PzError, ...]:
    """PZ0321 for each package that an isolated package's environment has in another version, or not at all.

    An environment that was never made has nothing to differ: using it is PZ0354.
    """
    if not environment.made:
        return ()
    versions = {found.name: found.version for found in environment.distributions()}
    made: list[PzError] = []
    for package in differing(lock, versions.get, environment.package):
        has = versions.get(package.name)
        state = f"does not have {package.name}" if has is None else f"has {package.name} {has}"
        message = f"the environment of {environment.package} {state}, and {LOCK_FILE} says {package.version}"
        hint = f"run pz deps sync --isolated{insist}"
        made.append(PzError("PZ0321", message, where=Where(LOCK_FILE), hint=hint))
    return tuple(made)


def not_installed(lock: Lock, version_of: VersionOf, core: str, *, insist: str = "") -> tuple[PzError, ...]:
    """PZ0321 for each package that is installed in another version than the lock says, or not at all.

    Args:
        lock: the lock; its main environment is compared.
        version_of: gives installed versions.
        core: version of the running core.
        insist: what to add to hints, for verbs that can be told to go on.
    """
    made: list[PzError] = []
    for package in lock.packages(MAIN):
        if package.range is not None and not satisfies(core, package.range):
            message = f"{package.name} {core} runs, and {LOCK_FILE} asks for {package.range}"
            hint = f"install a {package.name} of that range, or run pz deps lock --upgrade for other plugins{insist}"
            made.append(PzError("PZ0321", message, where=Where(LOCK_FILE), hint=hint))
    for package in differing(lock, version_of):
        installed = version_of(package.name)
        state = f"{package.name} is not installed" if installed is None else f"{package.name} {installed} is installed"
        message = f"{state}, and {LOCK_FILE} says {package.version}"
        made.append(PzError("PZ0321", message, where=Where(LOCK_FILE), hint=f"{_way_to(package)}{insist}"))
    return tuple(made)


def differing(lock: Lock, version_of: VersionOf, environment: str = MAIN) -> tuple[LockedPackage, ...]:
    """The packages of an environment that are not installed in the locked version; the core is left out."""
    return tuple(
        package
        for package in lock.packages(environment)
        if package.range is None and not _same(version_of(package.name), package.version) and applies(package)
    )


def _way_to(package: LockedPackage) -> str:
    if package.path is not None:
        return f"run pz deps sync, or pz deps lock if {package.path} has moved on"
    return "run pz deps sync, or pz deps lock --upgrade if the lock should move"


def applies(package: LockedPackage) -> bool:
    """Whether the markers of a package hold in this interpreter."""
    if not package.markers:
        return True
    from packaging.markers import InvalidMarker, Marker

    try:
        return Marker(package.markers).evaluate()
    except InvalidMarker:
        return True


def satisfies(version: str, specifier: str) -> bool:
    """Whether a version is within a PEP 440 specifier; a text that is none is satisfied by nothing."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return not specifier or SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        return False


def third_party(wanted: Sequence[Wanted]) -> tuple[str, ...]:
    """Names of listed packages that do not come from the makers of pz."""
    return tuple(sorted({item.name for item in wanted} - _FIRST_PARTY))


#: What the makers of pz publish together with it.
_FIRST_PARTY = frozenset(
    {
        "pz-connector-duckdb",
        "pz-connector-localfiles",
        "pz-connector-postgres",
        "pz-connector-s3",
        "pz-engine-spark",
        "pz-strategy-scd",
    }
)


def _same(first: str | None, second: str) -> bool:
    if first is None or first == second:
        return first is not None
    from packaging.version import InvalidVersion, Version

    try:
        # Folder names of installed packages write "_" where a version has "-".
        return Version(first.replace("_", "-")) == Version(second)
    except InvalidVersion:
        return False


def _range(item: Wanted) -> str:
    return f" {readable(item.specifier)}" if item.specifier else ""
