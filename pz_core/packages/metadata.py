"""What a package says of itself: a folder with ``pyproject.toml``, the running core, an unpacked wheel."""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from pz_core.errors import PzError
from pz_core.packages.model import CORE, readable
from pz_core.plugins.offers import GROUP, normalised

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from packaging.requirements import Requirement


class Described(Struct, frozen=True):
    """A package's name, version and needs.

    Args:
        requires: requirements as PEP 508 texts.
        requires_python: PEP 440 text, empty if it says nothing.
        entry_points: of the group ``pz``: name to module.
        path: folder relative to the lock, for a local package.
    """

    name: str
    version: str
    requires: tuple[str, ...] = ()
    requires_python: str = ""
    entry_points: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None


def local_package(folder: Path, shown: str) -> Described:
    """A package that is locked by its folder.

    Args:
        folder: holds ``pyproject.toml``.
        shown: the folder relative to the lock.

    Raises:
        PzError: PZ0320 if it does not say its name and version.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    hint = "name a folder whose pyproject.toml has [project] with name and version"
    try:
        document: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise PzError("PZ0320", f"{shown} has no readable pyproject.toml", hint=hint, cause=error) from error
    project = document.get("project")
    name, version = (project.get("name"), project.get("version")) if isinstance(project, dict) else (None, None)
    if not isinstance(project, dict) or not isinstance(name, str) or not isinstance(version, str):
        raise PzError("PZ0320", f"{shown}/pyproject.toml does not say name and version", hint=hint)
    requires, bound = project.get("dependencies", []), project.get("requires-python", "")
    groups = project.get("entry-points", {})
    points = groups.get(GROUP, {}) if isinstance(groups, dict) else None
    try:
        version, _ = str(Version(version)), SpecifierSet(bound)
    except (InvalidVersion, InvalidSpecifier, TypeError, AttributeError) as error:
        message = f"{shown}/pyproject.toml: version or requires-python is not as PEP 440 writes it"
        raise PzError("PZ0320", message, hint=hint, cause=error) from error
    if not (
        isinstance(requires, list) and all(isinstance(text, str) for text in requires) and isinstance(points, dict)
    ):
        raise PzError("PZ0320", f"{shown}/pyproject.toml: dependencies or entry-points is malformed", hint=hint)
    made = {str(key): str(value) for key, value in points.items()}
    return Described(normalised(name), version, tuple(requires), bound, made, shown)


def running_core() -> Described:
    """The core that runs now, with what it needs itself: plugins have to live with these versions."""
    from importlib.metadata import PackageNotFoundError, distribution

    from pz_core import __version__

    try:
        found = described(distribution(CORE))
    except PackageNotFoundError:
        return Described(CORE, __version__, (), ">=3.11")
    return Described(CORE, __version__, found.requires, found.requires_python or ">=3.11")


def described(distribution: Distribution) -> Described:
    """What an installed or unpacked distribution says of itself."""
    metadata = distribution.metadata
    return Described(
        normalised(metadata["Name"]),
        distribution.version,
        tuple(distribution.requires or ()),
        next(iter(metadata.get_all("Requires-Python") or ()), ""),
        {point.name: point.value for point in distribution.entry_points if point.group == GROUP},
    )


def metadata_wheel(package: Described, folder: Path) -> Path:
    """A wheel without content, so that a resolver knows a package that no index has.

    Args:
        package: what it should say.
        folder: to write it to.
    """
    base = f"{package.name.replace('-', '_')}-{package.version}"
    lines = ["Metadata-Version: 2.1", f"Name: {package.name}", f"Version: {package.version}"]
    if package.requires_python:
        lines.append(f"Requires-Python: {package.requires_python}")
    lines += [f"Requires-Dist: {required}" for required in package.requires]
    path = folder / f"{base}-py3-none-any.whl"
    inside = f"{base}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{inside}/METADATA", "\n".join(lines) + "\n")
        wheel.writestr(
            f"{inside}/WHEEL", "Wheel-Version: 1.0\nGenerator: pz\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{inside}/RECORD", "")
    return path


def requirements(package: Described) -> Iterator[Requirement]:
    """What a package needs; a text that is no requirement is left to the resolver to refuse."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in package.requires:
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue


def needed_by(package: Described) -> frozenset[str]:
    """Names of the packages that a package needs."""
    return frozenset(normalised(required.name) for required in requirements(package))


def constraints(package: Described) -> tuple[str, ...]:
    """The requirements of a package as lines that bound versions and ask for nothing."""
    made: list[str] = []
    for required in requirements(package):
        if required.specifier and "extra" not in str(required.marker or ""):
            marker = f" ; {required.marker}" if required.marker else ""
            made.append(f"{required.name}{required.specifier}{marker}")
    return tuple(sorted(made))


def needs_of_core(packages: tuple[Described, ...]) -> str:
    """The versions of the core that all of the packages accept, as PEP 440 text."""
    parts = {
        str(part)
        for package in packages
        for required in requirements(package)
        if normalised(required.name) == CORE
        for part in required.specifier
    }
    return readable(",".join(parts))
