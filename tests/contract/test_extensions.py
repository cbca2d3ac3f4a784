"""Extensions: the signature of a file is checked once, and again whenever the file may be another."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from pz_core.contract.connector import ConnectorError, Setup
from pz_core.contract.extensions import UNSIGNED, extension_file, load_extensions, loading, planned_loading


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of what was accepted; it is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/pz/extensions.json"


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    made = duckdb.connect(config={**UNSIGNED})
    yield made
    made.close()


def again() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={**UNSIGNED})


def loaded(database: duckdb.DuckDBPyConnection) -> list[str]:
    asked = "SELECT extension_name FROM duckdb_extensions() WHERE loaded AND install_mode <> 'STATICALLY_LINKED'"
    return [name for (name,) in database.execute(asked).fetchall()]


def copied(folder: Path) -> Path:
    """A copy of an extension."""
    path = folder / "it's here" / "httpfs.duckdb_extension"
    path.parent.mkdir(parents=True)
    shutil.copyfile(extension_file("httpfs"), path)
    return path


def spoil(path: Path) -> None:
    """Another byte in the signature, at the same size and with the same times."""
    about = path.stat()
    with path.open("r+b") as file:
        file.seek(-10, 2)
        byte = file.read(1)
        file.seek(-10, 2)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def load(path: Path) -> Setup:
    return Setup("LOAD '" + str(path).replace("'", "''") + "'", "extension")


def test_signatures_count_again_before_any_other_sql(database):
    statement = loading("httpfs")
    for one in (database, again()):
        assert load_extensions(one, [statement]) == (statement,)
        assert loaded(one) == ["httpfs"]
        assert one.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(False,)]
        for words in ("SET allow_unsigned_extensions = true", "SET GLOBAL allow_unsigned_extensions = true"):
            with pytest.raises(duckdb.Error):
                one.execute(words)
        one.execute("RESET GLOBAL allow_unsigned_extensions")
        assert one.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(False,)]


def test_a_file_that_was_never_accepted_is_checked(database, tmp_path, memory):
    path = copied(tmp_path)
    spoil(path)
    assert load_extensions(database, [load(path)]) == ()
    assert loaded(database) == []
    with pytest.raises(duckdb.Error, match="signature"):
        database.execute(load(path).sql)
    assert not memory.exists()


def test_a_file_that_was_accepted_is_not_checked_while_it_is_the_same(tmp_path, memory, database):
    path = copied(tmp_path)
    assert load_extensions(database, [load(path)]) == (load(path),)
    assert (memory.stat().st_mode & 0o777, list(json.loads(memory.read_text()))) == (0o600, [str(path)])
    # Remembered although it is bad: only so can be told that nobody looks at the signature again.
    spoil(path)
    known = {str(path): _identity_of(path)}
    memory.write_text(json.dumps(known))
    other = again()
    assert load_extensions(other, [load(path)]) == (load(path),)
    assert loaded(other) == ["httpfs"]


def _identity_of(path: Path) -> str:
    about = path.stat()
    return f"{about.st_dev}:{about.st_ino}:{about.st_size}:{about.st_mtime_ns}:{about.st_ctime_ns}"


def test_a_file_that_changed_is_checked_even_if_its_times_were_set_back(tmp_path, memory, database):
    path = copied(tmp_path)
    load_extensions(database, [load(path)])
    before = path.stat()
    spoil(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    other = again()
    assert load_extensions(other, [load(path)]) == ()
    assert loaded(other) == []


def test_a_memory_that_others_may_write_counts_for_nothing(tmp_path, memory, database):
    path = copied(tmp_path)
    load_extensions(database, [load(path)])
    spoil(path)
    memory.write_text(json.dumps({str(path): _identity_of(path)}))
    memory.chmod(0o622)
    assert load_extensions(again(), [load(path)]) == ()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', "null"])
def test_a_torn_memory_is_none(memory, database, text):
    memory.parent.mkdir(parents=True)
    memory.write_text(text)
    assert load_extensions(database, [loading("httpfs")]) == (loading("httpfs"),)
    assert str(extension_file("httpfs")) in json.loads(memory.read_text())


def test_a_memory_that_cannot_be_written_costs_the_check_alone(memory, database):
    memory.parent.parent.mkdir()
    memory.parent.write_text("a file where the folder should be")
    assert load_extensions(database, [loading("httpfs")]) == (loading("httpfs"),)


@pytest.mark.parametrize("more", ["INSTALL httpfs; {}", "{}; SELECT 1", "LOAD httpfs", "SET threads = 1"])
def test_what_is_more_than_a_load_of_one_file_is_left(database, more):
    made = Setup(more.replace("{}", loading("httpfs").sql), "extension")
    assert load_extensions(database, [made]) == ()
    assert loaded(database) == []


def test_an_extension_without_a_package_says_what_to_install():
    assert planned_loading("spatial") == ()
    with pytest.raises(ConnectorError) as caught:
        extension_file("spatial", otherwise="fly")
    assert caught.value.code == "PZ0311"
    assert str(caught.value.hint) == f"pip install duckdb-extension-spatial=={duckdb.__version__}, or fly"
