"""Extensions from installed packages: loaded without a second check, and nothing else is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from pz_core.contract.connector import ConnectorError, Setup
from pz_core.contract.extensions import UNSIGNED, extension_file, load_installed, loading, planned_loading


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    made = duckdb.connect(config={**UNSIGNED})
    yield made
    made.close()


def loaded(database: duckdb.DuckDBPyConnection) -> list[str]:
    asked = "SELECT extension_name FROM duckdb_extensions() WHERE loaded AND install_mode <> 'STATICALLY_LINKED'"
    return [name for (name,) in database.execute(asked).fetchall()]


def elsewhere(folder: Path) -> Setup:
    """The extension with another byte in its signature, in a folder like that of the package."""
    path = folder / "duckdb_extension_httpfs" / "extensions" / f"v{duckdb.__version__}" / "httpfs.duckdb_extension"
    path.parent.mkdir(parents=True)
    shutil.copyfile(extension_file("httpfs"), path)
    with path.open("r+b") as file:
        file.seek(-10, 2)
        byte = file.read(1)
        file.seek(-10, 2)
        file.write(bytes([byte[0] ^ 1]))
    return Setup(f"LOAD '{path}'", "extension")


def test_what_a_package_brought_is_loaded_and_signatures_count_again(database):
    statement = loading("httpfs")
    assert load_installed(database, [statement]) == (statement,)
    assert loaded(database) == ["httpfs"]
    assert database.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(False,)]
    with pytest.raises(duckdb.Error):
        database.execute("SET allow_unsigned_extensions = true")
    with pytest.raises(duckdb.Error):
        database.execute("SET GLOBAL allow_unsigned_extensions = true")


def test_a_file_from_elsewhere_is_not_loaded_unsigned(database, tmp_path):
    other = elsewhere(tmp_path)
    assert load_installed(database, [other]) == ()
    with pytest.raises(duckdb.Error, match="signature"):
        database.execute(other.sql)
    assert loaded(database) == []


@pytest.mark.parametrize(
    "more",
    ["INSTALL httpfs; {}", "{}; SELECT 1", "LOAD httpfs", "SET threads = 1 -- /httpfs.duckdb_extension'"],
)
def test_what_is_more_than_a_load_is_left(database, more):
    made = Setup(more.replace("{}", loading("httpfs").sql), "extension")
    assert load_installed(database, [made]) == ()
    assert loaded(database) == []


def test_an_extension_without_a_package_says_what_to_install():
    assert planned_loading("spatial") == ()
    with pytest.raises(ConnectorError) as caught:
        extension_file("spatial")
    assert caught.value.code == "PZ0311"
    assert "pip install duckdb-extension-spatial==" in str(caught.value.hint)
