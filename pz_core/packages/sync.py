"""Installs what a lock says, no more and no less of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from pz_core.errors import PzError
from pz_core.packages.model import LockedPackage
from pz_core.packages.uv import NoSolutionError, Uv, python


def in_environment() -> bool:
    """Whether the interpreter runs in a virtual environment (or conda's), so that installing touches nothing else."""
    return sys.prefix != sys.base_prefix or (Path(sys.prefix) / "conda-meta").is_dir()


def install(packages: Sequence[LockedPackage], folder: Path, uv: Uv, *, anew: Collection[str] = ()) -> None:
    """Install packages of a lock into the environment that pz runs in.

    Args:
        packages: what to install, without what they need; the core is left out.
        folder: of the lock, which paths of local packages start from.
        uv: the installer.
        anew: names to install although their version is there.

    Raises:
        PzError: PZ0320 (no file for this platform), PZ0327, PZ0328, PZ0329.
    """
    indexed = [package for package in packages if not package.is_core and package.path is None]
    local = [folder / package.path for package in packages if package.path is not None]
    again = [part for name in sorted(anew) for part in ("--reinstall-package", name)]
    try:
        if indexed:
            with tempfile.TemporaryDirectory(prefix="pz-deps-") as name:
                listed = Path(name) / "lock.txt"
                listed.write_text("".join(_line(package) for package in indexed), encoding="utf-8")
                uv("pip", "install", "--quiet", "--no-deps", "--require-hashes", *again, *python(), "-r", listed)
        if local:
            editable = [part for path in local for part in ("-e", str(path))]
            uv("pip", "install", "--quiet", "--no-deps", *python(), *editable)
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
