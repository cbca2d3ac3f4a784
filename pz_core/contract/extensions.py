"""DuckDB's extensions from installed packages: nothing is downloaded, and nothing is checked twice."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pz_core.contract.connector import ConnectorError, Setup
from pz_core.values import quote_literal

if TYPE_CHECKING:
    import duckdb

#: What a DuckDB has to be opened with for :func:`load_installed`, which takes it back.
UNSIGNED = {"allow_unsigned_extensions": "true"}


def extension_file(name: str) -> Path:
    """The file of an extension in the package ``duckdb-extension-<name>``, for the DuckDB that is installed.

    Args:
        name: of the extension, such as ``httpfs``.

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
        hint=f"pip install {package}=={version}, or set engine.force_universal: true",
    )


def loading(name: str) -> Setup:
    """The statement that loads an extension.

    Args:
        name: of the extension.

    Raises:
        ConnectorError: PZ0311 if its package is not installed.
    """
    return Setup(f"LOAD {quote_literal(str(extension_file(name)))}", "extension")


def planned_loading(name: str) -> tuple[Setup, ...]:
    """The same for a plan, which does not mind what is not installed.

    Args:
        name: of the extension.
    """
    try:
        return (loading(name),)
    except ConnectorError:
        return ()


def load_installed(database: duckdb.DuckDBPyConnection, statements: Iterable[Setup]) -> tuple[Setup, ...]:
    """Load extensions of installed packages into a DuckDB that has run nothing yet, without asking for signatures.

    DuckDB spends a tenth of a second on the signature of each. It guards files that are downloaded; one that a package
    brought is code of that package as its Python is, and who can change the one can change the other. Afterwards
    signatures are asked for again, and DuckDB lets nobody take that back: no SQL of a project ever runs without.

    Args:
        database: opened with :data:`UNSIGNED`.
        statements: to look through. What is not :func:`loading`'s own is left out, such as a file from elsewhere.

    Returns:
        Those that were run. A fault is told by running the others where they are needed.
    """
    import duckdb

    done: list[Setup] = []
    try:
        for statement in statements:
            if _is_installed(statement):
                with contextlib.suppress(duckdb.Error):
                    database.execute(statement.sql)
                    done.append(statement)
    finally:
        database.execute("SET GLOBAL allow_unsigned_extensions = false")
    return tuple(done)


def _is_installed(statement: Setup) -> bool:
    name = re.search(r"(\w+)\.duckdb_extension'$", statement.sql)
    return name is not None and statement in planned_loading(name[1])
