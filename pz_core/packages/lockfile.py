"""``pz.lock.json``: where it is looked for, and how it is read and written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from pz_core.errors import Notice, PzError, Where
from pz_core.packages.model import LOCK_FILE, MAIN, Lock, LockedFile, LockedPackage
from pz_core.values.atomic import write_whole

_FORMAT = 1
_REPAIR = f"take {LOCK_FILE} from version control, or remove it and run pz deps lock"


class FoundLock(Struct, frozen=True):
    """A lock that names the project.

    Args:
        folder: absolute folder that the lock stands in.
        lock: what it holds.
        project: the project's folder relative to it.
    """

    folder: Path
    lock: Lock
    project: str

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / LOCK_FILE


def relative(folder: Path, base: Path) -> str | None:
    """A folder relative to another, with forward slashes; ``None`` if it is not in there."""
    try:
        return folder.resolve().relative_to(base.resolve()).as_posix()
    except ValueError:
        return None


def folders_upwards(project: Path) -> Iterator[Path]:
    """The project and the folders above it, up to the first that holds ``.git``."""
    start = project.resolve()
    for folder in (start, *start.parents):
        yield folder
        if (folder / ".git").exists():
            return


def find_lock(project: Path) -> tuple[FoundLock | None, tuple[Notice, ...]]:
    """The nearest lock that names the project, and a note for each nearer one that does not.

    Args:
        project: the project's folder.

    Raises:
        PzError: PZ0101 if a lock on the way cannot be read.
    """
    notes: list[Notice] = []
    for folder in folders_upwards(project):
        path = folder / LOCK_FILE
        if not path.is_file():
            continue
        lock = read_lock(path)
        name = relative(project, folder)
        if name in lock.projects:
            return FoundLock(folder, lock, name or "."), tuple(notes)
        shown = Path(os.path.relpath(path, project.resolve())).as_posix()
        notes.append(Notice("note", f"{shown} does not name this project, so it is passed over"))
    return None, tuple(notes)


def read_lock(path: Path) -> Lock:
    """Read a lock.

    Raises:
        PzError: PZ0101 if it is no lock that this version understands.
    """
    where = Where(LOCK_FILE)
    try:
        made = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, ValueError, RecursionError) as error:
        raise PzError("PZ0101", f"{LOCK_FILE} is not readable JSON", where=where, hint=_REPAIR, cause=error) from error
    if isinstance(made, dict) and isinstance(made.get("version"), int) and made["version"] > _FORMAT:
        raise PzError(
            "PZ0101",
            f"{LOCK_FILE} has format {made['version']}, and this version of pz knows format {_FORMAT}",
            where=where,
            hint="use the version of pz that wrote it, or a later one",
        )
    try:
        return _lock(made)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PzError(
            "PZ0101", f"{LOCK_FILE} is not in the form of a lock", where=where, hint=_REPAIR, cause=error
        ) from error


def as_text(lock: Lock) -> str:
    """The file's content: sorted keys and lists, LF, nothing of the time or the machine."""
    document = {
        "version": _FORMAT,
        "requires_python": lock.requires_python,
        "projects": sorted(lock.projects),
        "environments": {
            name: [as_dict(package) for package in sorted(packages, key=_order)]
            for name, packages in lock.environments.items()
        },
    }
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_lock(lock: Lock, folder: Path) -> bool:
    """Write the lock, whole or not at all.

    Returns:
        Whether the file changed; one with the same content is left alone.

    Raises:
        PzError: PZ0329 if it cannot be written.
    """
    path, text = folder / LOCK_FILE, as_text(lock)
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return False
        write_whole(path, text, durable=True)
    except OSError as error:
        raise PzError(
            "PZ0329",
            f"{LOCK_FILE} cannot be written ({os.strerror(error.errno) if error.errno else type(error).__name__})",
            hint="free space, or get the right to write in the folder of the lock",
            cause=error,
        ) from error
    return True


def as_dict(package: LockedPackage) -> dict[str, Any]:
    """A package as JSON-ready data; the core has a range, a local package a path, any other its files."""
    if package.range is not None:
        return {"name": package.name, "range": package.range}
    made: dict[str, Any] = {
        "name": package.name,
        "version": package.version,
        "markers": package.markers,
        "requires": sorted(package.requires),
        "entry_points": dict(package.entry_points),
    }
    if package.path is not None:
        made["path"] = package.path
    else:
        made["files"] = [
            {"name": file.name, "sha256": file.sha256} if file.name else {"sha256": file.sha256}
            for file in sorted(package.files)
        ]
    return made


def _order(package: LockedPackage) -> tuple[str, str, str]:
    return (package.name, package.version, package.markers)


def _lock(made: Any) -> Lock:
    if made["version"] != _FORMAT:
        raise ValueError
    environments: Mapping[str, Any] = made["environments"]
    return Lock(
        _text(made["requires_python"]),
        tuple(sorted(_text(project) for project in made["projects"])),
        {MAIN: (), **{name: tuple(_package(item) for item in items) for name, items in environments.items()}},
    )


def _package(item: Any) -> LockedPackage:
    name = _text(item["name"])
    if "range" in item:
        return LockedPackage(name, range=_text(item["range"]))
    path = item.get("path")
    return LockedPackage(
        name,
        _text(item["version"]),
        tuple(_file(file) for file in item.get("files", ())),
        _text(item.get("markers", "")),
        tuple(_text(required) for required in item.get("requires", ())),
        {_text(key): _text(value) for key, value in item.get("entry_points", {}).items()},
        None if path is None else _text(path),
    )


def _file(item: Any) -> LockedFile:
    name, sha256 = item.get("name", ""), item["sha256"]
    if not (isinstance(name, str) and isinstance(sha256, str)):
        raise TypeError
    return LockedFile(name, sha256)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
