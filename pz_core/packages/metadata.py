"""What a package says of itself: a folder with ``pyproject.toml``, the running core, an unpacked wheel."""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pz_core.errors import PzError
from pz_core.packages.model import CORE
from pz_core.plugins.offers import GROUP, normalised

if TYPE_CHECKING:
    from importlib.metadata import Distribution


@dataclass(frozen=True, slots=True)
class Described:
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
    hint = "name a folder whose pyproject.toml has [project] with name and version"
    try:
        document: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise PzError("PZ0320", f"{shown} has no readable pyproject.toml", hint=hint, cause=error) from error
    project = document.get("project")
    name, version = (project.get("name"), project.get("version")) if isinstance(project, dict) else (None, None)
    if not isinstance(project, dict) or not isinstance(name, str) or not isinstance(version, str):
        raise PzError("PZ0320", f"{shown}/pyproject.toml does not say name and version", hint=hint)
    points = project.get("entry-points", {}).get(GROUP, {})
    return Described(
        normalised(name),
        version,
        tuple(project.get("dependencies", ())),
        project.get("requires-python", ""),
        {str(key): str(value) for key, value in points.items()},
        shown,
    )


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
        metadata["Requires-Python"] or "",
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


def readable(specifier: str) -> str:
    """A specifier with its lower bounds first: ``>=1,<2``."""
    parts = {part.strip() for part in specifier.split(",") if part.strip()}
    return ",".join(sorted(parts, key=lambda part: (part[0] != ">", part)))


def constraints(package: Described) -> tuple[str, ...]:
    """The requirements of a package as lines that bound versions and ask for nothing."""
    from packaging.requirements import InvalidRequirement, Requirement

    made: list[str] = []
    for text in package.requires:
        try:
            required = Requirement(text)
        except InvalidRequirement:
            continue
        if required.specifier and "extra" not in str(required.marker or ""):
            marker = f" ; {required.marker}" if required.marker else ""
            made.append(f"{required.name}{required.specifier}{marker}")
    return tuple(sorted(made))


def needs_of_core(packages: tuple[Described, ...]) -> str:
    """The versions of the core that all of the packages accept, as PEP 440 text."""
    from packaging.requirements import InvalidRequirement, Requirement

    parts: set[str] = set()
    for package in packages:
        for text in package.requires:
            try:
                required = Requirement(text)
            except InvalidRequirement:
                continue
            if normalised(required.name) == CORE:
                parts.update(str(part) for part in required.specifier)
    return readable(",".join(parts))
