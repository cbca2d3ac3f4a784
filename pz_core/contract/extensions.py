"""DuckDB's extensions from installed packages: nothing is downloaded, and no file's signature is checked twice."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pz_core.contract.connector import ConnectorError, Setup
from pz_core.values import quote_literal
from pz_core.values.atomic import write_whole

if TYPE_CHECKING:
    import duckdb

#: What a DuckDB has to be opened with for :func:`load_known`, which takes it back.
UNSIGNED = {"allow_unsigned_extensions": "true"}
#: One load at a time in a process, so that it is sure which file DuckDB has looked at.
_lock = threading.Lock()
#: What DuckDB accepted in this process: the identities of files, by their paths.
_accepted: dict[str, str] = {}
_LOAD = re.compile(r"LOAD '((?:[^']|'')+\.duckdb_extension)'")
#: A memory above this is not ours.
_MOST_BYTES = 1 << 20


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


def load_known(database: duckdb.DuckDBPyConnection, statements: Iterable[Setup]) -> tuple[Setup, ...]:
    """Load what DuckDB has accepted before into a DuckDB that has run nothing yet, without another check.

    DuckDB reads a whole file to check its signature, at each LOAD, which takes longer than a small run. A file that it
    has accepted on this machine (:func:`load_checked`) is remembered for as long as it is the same: device, inode,
    size, times of content and of change. Before any other SQL can be run, unsigned files are refused again, and DuckDB
    lets no statement take that back.

    Args:
        database: opened with :data:`UNSIGNED`.
        statements: what :func:`loading` gave, or others that load one file; all else among them is left out.

    Returns:
        Those that were run; the others are for :func:`load_checked`.
    """
    import duckdb

    done: list[Setup] = []
    try:
        with _lock:
            known = {**_remembered(), **_accepted}
            for statement in statements:
                path = _file_of(statement)
                if path is not None and known.get(str(path), "") == _identity(path):
                    with contextlib.suppress(duckdb.Error):
                        database.execute(statement.sql)
                        done.append(statement)
    finally:
        database.execute("SET GLOBAL allow_unsigned_extensions = false")
    return tuple(done)


def load_checked(run: Callable[[str], duckdb.DuckDBPyConnection], statement: Setup) -> None:
    """Run the statement that loads an extension, and remember the file if DuckDB accepted it.

    Args:
        run: runs SQL on a database that asks for signatures.
        statement: what :func:`loading` gave. Any other is just run.

    Raises:
        duckdb.Error: whatever ``run`` raises.
    """
    path = _file_of(statement)
    if path is None:
        run(statement.sql)
        return
    with _lock:
        # A second LOAD of one name does nothing, and says nothing about the file.
        asked = f"SELECT count(*) FROM duckdb_extensions() WHERE loaded AND extension_name = {quote_literal(path.stem)}"
        there = run(asked).fetchall() != [(0,)]
        before = _identity(path)
        run(statement.sql)
        if not there and before is not None and before == _identity(path):
            _accepted[str(path)] = before
            _remember()


def _file_of(statement: Setup) -> Path | None:
    """The one file that a statement loads, and nothing else."""
    match = _LOAD.fullmatch(statement.sql)
    path = None if match is None else Path(match[1].replace("''", "'"))
    return path if path is not None and path.is_absolute() else None


def _identity(path: Path) -> str | None:
    """What changes with a file's content, even where whoever changes it sets its times back."""
    try:
        about = path.stat()
    except (OSError, ValueError):
        return None
    return f"{about.st_dev}:{about.st_ino}:{about.st_size}:{about.st_mtime_ns}:{about.st_ctime_ns}"


def _memory() -> Path | None:
    """The file that remembers, if this user alone can have written it; without users there is none (Windows)."""
    if not hasattr(os, "geteuid"):
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"))  # noqa: PTH111, PTH117
    if not folder.is_absolute():
        return None
    file = folder / "pz" / "extensions.json"
    # A home that was kept from another user, as sudo does, is neither read nor written.
    there = [p for p in (file, file.parent, folder) if os.path.lexists(p)]
    there = there or [next(p for p in folder.parents if os.path.lexists(p))]
    return file if all(p.lstat().st_uid == os.geteuid() for p in there) else None


def _remembered() -> dict[str, str]:
    with contextlib.suppress(Exception):  # whatever it is, it is no memory, and costs a check
        if (path := _memory()) is not None:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
            with open(os.open(path, flags), encoding="utf-8") as file:  # noqa: PTH123
                about = os.fstat(file.fileno())
                own = about.st_uid == os.geteuid() and not about.st_mode & 0o022
                if own and stat.S_ISREG(about.st_mode) and about.st_size < _MOST_BYTES:
                    return {str(key): str(value) for key, value in json.load(file).items()}
    return {}


def _remember() -> None:
    with contextlib.suppress(Exception):  # as above
        if (path := _memory()) is not None:
            known = {**_remembered(), **_accepted}
            kept = {name: identity for name, identity in known.items() if _identity(Path(name)) == identity}
            write_whole(path, json.dumps(kept, indent=1), mode=0o600)
