"""Are installed files those that their packages brought? Each against the record that was installed with it."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from msgspec import Struct

from pz_core.errors import PzError, Where
from pz_core.packages.fitting import applies
from pz_core.packages.model import MAIN, Lock, LockedPackage
from pz_core.plugins.isolation.environment import Environment
from pz_core.plugins.offers import normalised

#: Faults that are told one by one; the rest of a package is counted.
_TOLD = 3


class FileFault(Struct, frozen=True):
    """A fault of an installed package's files."""

    package: str
    error: PzError


class FileCheck(Struct, frozen=True):
    """What comparing files found.

    Args:
        faults: what differs.
        skipped: packages that were not looked at: they are installed editable, or without a record.
    """

    faults: tuple[FileFault, ...]
    skipped: tuple[str, ...]


def changed_files(lock: Lock, environment: Environment | None = None) -> FileCheck:
    """PZ0326 for files that were changed or removed, PZ0325 for a file that two packages brought.

    Args:
        lock: the lock.
        environment: of an isolated package; the one that pz runs in by default.
    """
    faults: list[FileFault] = []
    skipped: list[str] = []
    owners: dict[Path, str] = {}
    for package in lock.packages(MAIN if environment is None else environment.package):
        if package.is_core or not applies(package):
            continue
        installed = _installed(package.name, environment)
        if installed is None:
            continue  # PZ0321 tells it
        record = installed.read_text("RECORD")
        if record is None or is_editable(installed):
            skipped.append(package.name)
            continue
        faults += [FileFault(package.name, error) for error in _faults_of(package, installed, record, owners)]
    return FileCheck(tuple(faults), tuple(skipped))


def _installed(name: str, environment: Environment | None) -> Distribution | None:
    if environment is not None:
        return next(iter(distributions(name=name, path=[str(environment.site)])), None)
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def is_editable(installed: Distribution) -> bool:
    """Whether a distribution is installed as a link to its folder."""
    text = installed.read_text("direct_url.json")
    try:
        made = json.loads(text) if text else {}
    except ValueError:
        return False
    return bool(isinstance(made, dict) and made.get("dir_info", {}).get("editable"))


def _faults_of(
    package: LockedPackage, installed: Distribution, record: str, owners: dict[Path, str]
) -> Iterator[PzError]:
    wrong: list[str] = []
    for row in csv.reader(record.splitlines()):
        if len(row) < 2 or not row[0]:
            continue
        name, wanted = row[0], row[1]
        path = Path(str(installed.locate_file(name)))
        if wanted and not path.name.endswith(".pyc"):
            other = owners.setdefault(path, package.name)
            if normalised(other) != package.name:
                yield PzError(
                    "PZ0325",
                    f"{other} and {package.name} both bring the file {name}",
                    hint="remove one of the two packages",
                )
        if wanted and not _as_recorded(path, wanted):
            wrong.append(name)
    hint = "pz deps sync installs the package again"
    for name in wrong[:_TOLD]:
        what = "was changed after it was installed" if (Path(str(installed.locate_file(name)))).exists() else "is gone"
        yield PzError("PZ0326", f"{package.name} {package.version}: {name} {what}", where=Where(), hint=hint)
    if len(wrong) > _TOLD:
        yield PzError("PZ0326", f"{package.name} {package.version}: {len(wrong) - _TOLD} more files differ", hint=hint)


def _as_recorded(path: Path, wanted: str) -> bool:
    algorithm, _, digest = wanted.partition("=")
    try:
        with path.open("rb") as file:
            made = hashlib.file_digest(file, algorithm).digest()
    except (OSError, ValueError):
        return False
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode() == digest.rstrip("=")
