"""Where files are: roots, relative paths that must stay below them, names of written files."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from pz_core.contract.connector import ConnectionConfig, ConnectorError
from pz_core.contract.files import format_of_path, is_appended
from pz_core.contract.secrets import Secret, reveal
from pz_core.errors import PzError
from pz_core.values import Value
from pz_core.values.processes import is_alive

_STARS = re.compile(r"\*{2,}")
_WILD = re.compile(r"[*?\[]")


class Places(Struct, frozen=True):
    """The paths of one connection.

    Args:
        connection: its name, for messages.
        project: absolute path of the project.
        root: absolute path that relative paths start from.
    """

    connection: str
    project: Path
    root: Path

    @classmethod
    def of(cls, config: ConnectionConfig) -> Places:
        """From a connection; without ``root`` paths start from the project."""
        project = Path(os.path.abspath(config.base_dir))  # noqa: PTH100 - resolve() would follow links
        root = config.options.get("root")
        text = reveal(root) if isinstance(root, Secret) else str(root) if root is not None else ""
        _refuse_nul(text, f"connection '{config.name}': option 'root'")
        return cls(config.name, project, Path(os.path.normpath(project / text)))

    def source(self, entity: str, options: Mapping[str, Value], file_format: str) -> Path:
        """The path or glob of a read: ``<root>/<entity>.<format>`` without a ``path``."""
        path = options.get("path")
        return self._below(str(path) if path is not None else f"{entity}.{file_format}")

    def folder(self, entity: str, options: Mapping[str, Value]) -> Path:
        """The folder of a write: ``<root>/<entity>/`` without a ``path``."""
        path = options.get("path")
        return self._below(str(path) if path is not None else entity)

    def _below(self, path: str) -> Path:
        _refuse_nul(path, f"connection '{self.connection}': a path below root")
        return Path(os.path.normpath(self.root / path))  # an absolute path ignores the root

    def escape(self, path: Path, given: str | None, subject: str) -> PzError | None:
        """PZ0365 if a relative path leaves the root, through ``..`` or through a symbolic link; nothing is opened.

        Args:
            path: the resolved place, which may hold wildcards.
            given: the ``path`` that the user wrote; ``None`` where the entity's name makes it.
            subject: ``connection.entity``, for the message.
        """
        if given is not None and Path(given).is_absolute():
            return None
        fixed = _fixed_part(path)
        real_root = Path(os.path.realpath(self.root))
        if path.is_relative_to(self.root) and Path(os.path.realpath(fixed)).is_relative_to(real_root):
            return None
        return PzError(
            "PZ0365",
            f"{subject}: a relative path leaves the root of connection '{self.connection}'",
            hint="keep the path below root:, move root: up, or give an absolute path",
        )

    def shown(self, path: str | Path) -> str:
        """A path for messages: relative to the project where it lies inside."""
        absolute = Path(os.path.normpath(self.project / path))
        return absolute.relative_to(self.project).as_posix() if absolute.is_relative_to(self.project) else str(absolute)

    def found(self, location: Path, file_format: str, subject: str) -> list[Path]:
        """The files of a read, sorted. A name that exists is taken as it is, whatever characters it has.

        Raises:
            ConnectorError: if there is no such file.
        """
        if location.is_file():
            return [location]
        if location.is_dir():
            files = sorted(p for p in location.iterdir() if p.is_file() and _is_data(p, file_format))
            missing = f"folder {self.shown(location)} holds no {file_format} file"
        else:
            wild = bool(_WILD.search(str(location)))
            files = sorted(_once(_matched(location))) if wild else []
            missing = f"no file matches {self.shown(location)}" if wild else ""
        if files:
            return files
        raise ConnectorError(
            f"{subject}: {missing or f'file {self.shown(location)} does not exist'}",
            hint="check path: and root:, or create the file before the run",
        )


def _refuse_nul(path: str, what: str) -> None:
    """PZ0301 for a path that no file can have; Python would cut it, or raise, depending on its version."""
    if "\0" in path:
        raise PzError("PZ0301", f"{what} holds a NUL byte", hint="take the escape \\0 out of the text")


def _matched(location: Path) -> Iterator[Path]:
    """The files that a glob means, without hidden ones (our temporary files are): those of ``*`` behind links too.

    ``**`` follows no link to a folder, as in DuckDB: one that leads upwards would be walked without end.
    """
    base = _fixed_part(location)
    parts = [part if part == "**" else _STARS.sub("*", part) for part in location.parts[len(base.parts) :]]
    hidden = any(part.startswith(".") for part in parts)
    for path in base.glob("/".join(parts)):
        inside = path.parts[len(base.parts) :]
        if (hidden or not any(part.startswith(".") for part in inside)) and path.is_file():
            yield path


def _once(paths: Iterable[Path]) -> list[Path]:
    """Each file once, though a link to a folder leads to it by many ways: its rows must not count twice."""
    found: dict[tuple[str, str], Path] = {}
    for path in sorted(paths, key=lambda p: (len(p.parts), p)):
        found.setdefault((os.path.realpath(path.parent), path.name), path)
    return list(found.values())


def _fixed_part(path: Path) -> Path:
    """The part of a path before its first wildcard."""
    if os.path.lexists(path):
        return path
    kept = Path(path.anchor)
    for part in path.parts[1:]:
        if _WILD.search(part) and not os.path.lexists(kept / part):
            break
        kept = kept / part
    return kept


def _is_data(path: Path, file_format: str) -> bool:
    return not path.name.startswith(".") and format_of_path(path.name) == file_format


def appended(folder: Path, stem: str) -> list[Path]:
    """Files that earlier appends of this entity left."""
    return sorted(p for p in _entries(folder) if is_appended(p.name, stem) and not p.is_symlink() and p.is_file())


_HOST = f"{zlib.crc32(socket.gethostname().encode()):08x}"
_STALE_ELSEWHERE_S = 86_400.0


def temporary(folder: Path, stem: str, ending: str, run_id: str, attempt: int) -> Path:
    """A name beside the target for a file that is being written: it says which run, machine and process own it.

    It ends in a way of its own, because many readers' globs (DuckDB's among them) match names that begin with a dot.
    """
    owner = f"{run_id or 'none'}-{attempt}-{_HOST}.{os.getpid()}"
    return folder / f".pz-{owner}-{_digest(stem)}.{ending}.tmp"


def leftovers(folder: Path, stem: str) -> list[Path]:
    """Temporary files of this entity whose writer is gone; those of a live run are left alone."""
    shape = re.compile(rf"\.pz-.+-(?P<host>[0-9a-f]{{8}})\.(?P<pid>\d+)-{_digest(stem)}\..+")
    found = []
    for path in _entries(folder):
        match = shape.fullmatch(path.name)
        if match and _abandoned(path, match["host"], int(match["pid"])):
            found.append(path)
    return sorted(found)


def _abandoned(path: Path, host: str, pid: int) -> bool:
    if host == _HOST:
        return not is_alive(pid)
    try:
        return time.time() - path.stat().st_mtime > _STALE_ELSEWHERE_S
    except FileNotFoundError:
        return False


def _digest(stem: str) -> str:
    return hashlib.sha256(stem.encode()).hexdigest()[:12]


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
