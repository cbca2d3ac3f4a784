"""Installs what a lock says, no more and no less of it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from pz_core.errors import PzError
from pz_core.packages.model import LockedPackage
from pz_core.packages.uv import NoSolutionError, Uv, python
from pz_core.plugins.isolation.environment import Environment


def in_environment() -> bool:
    """Whether the interpreter runs in a virtual environment (or conda's), so that installing touches nothing else."""
    return sys.prefix != sys.base_prefix or (Path(sys.prefix) / "conda-meta").is_dir()


def make_environment(environment: Environment, packages: Sequence[LockedPackage], folder: Path, uv: Uv) -> None:
    """Make the environment of an isolated package, whole or not at all; one that was there is replaced.

    Args:
        environment: where it belongs.
        packages: what the lock has for it.
        folder: of the lock, which paths of local packages start from.
        uv: the installer.

    Raises:
        PzError: PZ0307 (no file for this platform), PZ0320, PZ0327, PZ0328, PZ0329.
    """
    place = environment.folder
    new, old = place.with_name(f"{place.name}.new"), place.with_name(f"{place.name}.old")
    made = Environment(environment.package, new)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        for leftover in (new, old):
            shutil.rmtree(leftover, ignore_errors=True)
        uv("venv", "--quiet", "--relocatable", "--no-project", *python(), new, asks_index=False)
        install(packages, folder, uv, into=made.python)
        if place.exists():
            place.replace(old)
        new.replace(place)
    except OSError as error:
        raise PzError(
            "PZ0329",
            f"the environment of {environment.package} cannot be made "
            f"({os.strerror(error.errno) if error.errno else type(error).__name__})",
            hint="free space, or get the right to write in .pz/envs of the project",
            cause=error,
        ) from error
    except PzError as error:
        if error.code != "PZ0320":
            raise
        raise PzError("PZ0307", f"{environment.package}: {error.message}", hint=error.hint, cause=error) from error
    finally:
        for leftover in (new, old):
            shutil.rmtree(leftover, ignore_errors=True)


def install(
    packages: Sequence[LockedPackage],
    folder: Path,
    uv: Uv,
    *,
    anew: Collection[str] = (),
    into: Path | None = None,
    fresh: bool = False,
) -> None:
    """Install packages of a lock into the environment that pz runs in, or into another.

    Args:
        packages: what to install, without what they need; the core is left out.
        folder: of the lock, which paths of local packages start from.
        uv: the installer.
        anew: names to install although their version is there.
        into: interpreter of the other environment.
        fresh: take nothing from uv's cache, which may hold a file that was changed through a hard link.

    Raises:
        PzError: PZ0320 (no file for this platform), PZ0327, PZ0328, PZ0329.
    """
    indexed = [package for package in packages if not package.is_core and package.path is None]
    local = [folder / package.path for package in packages if package.path is not None]
    interpreter = python() if into is None else ("--python", str(into))
    # Copies, not hard links: a file that is edited in one environment must not change in the cache and in all others.
    common = ("--quiet", "--no-deps", "--link-mode", "copy", *(("--no-cache",) if fresh else ()))
    again = [part for name in sorted(anew) for part in ("--reinstall-package", name)]
    try:
        if indexed:
            with tempfile.TemporaryDirectory(prefix="pz-deps-") as name:
                listed = Path(name) / "lock.txt"
                listed.write_text("".join(_line(package) for package in indexed), encoding="utf-8")
                uv("pip", "install", *common, "--require-hashes", *again, *interpreter, "-r", listed)
        if local:
            editable = [part for path in local for part in ("-e", str(path))]
            uv("pip", "install", *common, *interpreter, *editable)
    except NoSolutionError as error:
        raise PzError(
            "PZ0320",
            f"what the lock names cannot be installed here: {error.reasons}",
            hint="the index must have the locked versions, with a file for this platform and this Python",
        ) from error


def _line(package: LockedPackage) -> str:
    marker = f" ; {package.markers}" if package.markers else ""
    hashes = "".join(f" \\\n    --hash=sha256:{file.sha256}" for file in package.files)
    return f"{package.name}=={package.version}{marker}{hashes}\n"
