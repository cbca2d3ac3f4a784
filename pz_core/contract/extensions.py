"""DuckDB's extensions from installed packages: nothing is downloaded, and no file's signature is checked twice."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pz_core.contract.connector import ConnectorError, Setup
from pz_core.values import quote_literal
from pz_core.values.atomic import write_whole

if TYPE_CHECKING:
    import duckdb

#: What a DuckDB has to be opened with for :func:`load_extensions`, which takes it back.
UNSIGNED = {"allow_unsigned_extensions": "true"}


def extension_file(name: str, *, otherwise: str = "") -> Path:
    """The file of an extension in the package ``duckdb-extension-<name>``, for the DuckDB that is installed.

    Args:
        name: of the extension, such as ``httpfs``.
        otherwise: what else can be done where there is none, for the hint.

    Raises:
        ConnectorError: PZ0311 if there is none.
    """
    import importlib.util

    import duckdb

    version = duckdb.__version__
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / "extensions" / f"v{version}" / f"{name}.duckdb_extension"
        if path.is_file():
            return path
    package = f"duckdb-extension-{name.replace('_', '-')}"
    raise ConnectorError(
        f"DuckDB {version} needs its extension {name}, and no installed package has it",
        code="PZ0311",
        hint=f"pip install {package}=={version}{f', or {otherwise}' if otherwise else ''}",
    )


def loading(name: str, *, otherwise: str = "") -> Setup:
    """The statement that loads an extension.

    Args:
        name: of the extension.
        otherwise: what else can be done where there is none, for the hint.

    Raises:
        ConnectorError: PZ0311 if its package is not installed.
    """
    return Setup(f"LOAD {quote_literal(str(extension_file(name, otherwise=otherwise)))}", "extension")


def planned_loading(name: str) -> tuple[Setup, ...]:
    """The same for a plan, which does not mind what is not installed.

    Args:
        name: of the extension.
    """
    try:
        return (loading(name),)
    except ConnectorError:
        return ()


def load_extensions(database: duckdb.DuckDBPyConnection, statements: Iterable[Setup]) -> tuple[Setup, ...]:
    """Load extensions into a DuckDB that has run nothing yet; each file's signature is checked once.

    DuckDB reads a whole file to check its signature, at each LOAD, which takes longer than a small run. A file that it
    has accepted on this machine is remembered, and loaded without a check for as long as it is the same (device, inode,
    size, times of change and of content); what is new or was touched is checked. Before any other SQL can be run,
    unsigned files are refused again, and DuckDB lets no statement take that back.

    Args:
        database: opened with :data:`UNSIGNED`.
        statements: what :func:`loading` gave, or others that load one file; all else among them is left out.

    Returns:
        Those that were run. A fault is told by running the others where they are needed.
    """
    import duckdb

    done: list[Setup] = []

    def load(statement: Setup) -> None:
        with contextlib.suppress(duckdb.Error):
            database.execute(statement.sql)
            done.append(statement)

    files = [(s, Path(match[1].replace("''", "'"))) for s in statements if (match := _LOAD.fullmatch(s.sql))]
    memory = _Memory()
    try:
        for statement, path in files:
            if memory.knows(path):
                load(statement)
    finally:
        database.execute("SET GLOBAL allow_unsigned_extensions = false")
    for statement, path in files:
        if statement not in done:
            before = _identity(path)
            load(statement)
            if statement in done and before == _identity(path):
                memory.learn(path)
    memory.keep()
    return tuple(done)


_LOAD = re.compile(r"LOAD '((?:[^']|'')+\.duckdb_extension)'")


class _Memory:
    """The files that DuckDB has accepted, in a file of this user's alone; where there can be none, nothing is known."""

    def __init__(self) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - it never raises
        self._path = Path(base) / "pz" / "extensions.json"
        self._known: dict[str, object] = {}
        self._news = False
        with contextlib.suppress(OSError, ValueError), self._path.open(encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            if hasattr(os, "geteuid") and (about.st_uid != os.geteuid() or about.st_mode & 0o022):
                return  # somebody else could have written it
            known = json.load(file)
            if isinstance(known, dict):
                self._known = known

    def knows(self, path: Path) -> bool:
        return (
            path.is_absolute() and (identity := _identity(path)) is not None and self._known.get(str(path)) == identity
        )

    def learn(self, path: Path) -> None:
        if path.is_absolute():
            self._known[str(path)] = _identity(path)
            self._news = True

    def keep(self) -> None:
        if self._news and self._path.is_absolute():
            kept = {path: identity for path, identity in self._known.items() if _identity(Path(path)) == identity}
            with contextlib.suppress(OSError):
                write_whole(self._path, json.dumps(kept, indent=1), mode=0o600)


def _identity(path: Path) -> str | None:
    """What changes with a file's content, even where whoever changes it sets its times back."""
    try:
        about = path.stat()
    except (OSError, ValueError):
        return None
    return f"{about.st_dev}:{about.st_ino}:{about.st_size}:{about.st_mtime_ns}:{about.st_ctime_ns}"
