"""Extensions: the signature of a file is checked once, and again whenever the file may be another."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from pz_core.contract import extensions
from pz_core.contract.connector import ConnectorError, Setup
from pz_core.contract.extensions import (
    UNSIGNED,
    extension_file,
    load_checked,
    load_known,
    loading,
    planned_loading,
)


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of what was accepted; it is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget()
    return tmp_path / "cache/pz/extensions.json"


def forget() -> None:
    """As another process would begin."""
    extensions._accepted.clear()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Fresh]:
    made = Fresh(tmp_path)
    yield made
    for one in made.all:
        one.close()


class Fresh:
    """Makes databases that have run nothing, each as another process would."""

    def __init__(self, folder: Path) -> None:
        self.all: list[duckdb.DuckDBPyConnection] = []
        self.folder = folder

    def __call__(self) -> duckdb.DuckDBPyConnection:
        forget()
        made = duckdb.connect(config={**UNSIGNED, "extension_directory": str(self.folder / "own")})
        self.all.append(made)
        return made


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


def identity(path: Path) -> str:
    about = path.stat()
    return f"{about.st_dev}:{about.st_ino}:{about.st_size}:{about.st_mtime_ns}:{about.st_ctime_ns}"


def load(path: Path) -> Setup:
    return Setup("LOAD '" + str(path).replace("'", "''") + "'", "extension")


def accept(fresh: Fresh, statement: Setup) -> None:
    """Have DuckDB check it, as the first run does."""
    database = fresh()
    assert load_known(database, [statement]) == ()
    load_checked(database.execute, statement)


def test_signatures_count_before_any_other_sql(fresh):
    accept(fresh, loading("httpfs"))
    for statements, done in (([loading("httpfs")], (loading("httpfs"),)), ([], ())):
        database = fresh()
        assert load_known(database, statements) == done
        assert database.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(False,)]
        for words in ("SET allow_unsigned_extensions = true", "SET GLOBAL allow_unsigned_extensions = true"):
            with pytest.raises(duckdb.Error):
                database.execute(words)
        database.execute("RESET GLOBAL allow_unsigned_extensions")
        assert database.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(False,)]


def test_a_file_that_was_never_accepted_is_checked(fresh, tmp_path, memory):
    path, database = copied(tmp_path), fresh()
    spoil(path)
    assert load_known(database, [load(path)]) == ()
    with pytest.raises(duckdb.Error, match="signature"):
        load_checked(database.execute, load(path))
    assert loaded(database) == []
    assert not memory.exists()


def test_a_file_that_was_accepted_is_not_checked_while_it_is_the_same(tmp_path, memory, fresh):
    path = copied(tmp_path)
    accept(fresh, load(path))
    assert json.loads(memory.read_text()) == {str(path): identity(path)}
    assert memory.stat().st_mode & 0o777 == 0o600
    # Remembered although it is bad: only so can be told that nobody looks at the signature again.
    spoil(path)
    memory.write_text(json.dumps({str(path): identity(path)}))
    database = fresh()
    assert load_known(database, [load(path)]) == (load(path),)
    assert loaded(database) == ["httpfs"]


def test_a_process_that_can_keep_no_memory_checks_once(tmp_path, memory, fresh):
    memory.parent.parent.mkdir()
    memory.parent.write_text("a file where the folder should be")
    path = copied(tmp_path)
    accept(fresh, load(path))
    extensions._accepted[str(path)] = identity(path)
    again = duckdb.connect(config={**UNSIGNED})
    assert load_known(again, [load(path)]) == (load(path),)
    assert load_known(fresh(), [load(path)]) == ()


def test_a_file_that_changed_is_checked_even_if_its_times_were_set_back(tmp_path, fresh):
    path = copied(tmp_path)
    accept(fresh, load(path))
    before = path.stat()
    spoil(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert load_known(fresh(), [load(path)]) == ()


def test_a_load_that_does_nothing_accepts_nothing(tmp_path, memory, fresh):
    path, database = copied(tmp_path), fresh()
    load_known(database, [])
    load_checked(database.execute, loading("httpfs"))
    spoil(path)
    load_checked(database.execute, load(path))  # DuckDB has one of that name, and does not look at this one
    assert list(json.loads(memory.read_text())) == [str(extension_file("httpfs"))]
    assert load_known(fresh(), [load(path)]) == ()


def test_what_was_accepted_by_others_meanwhile_is_kept_and_what_is_gone_is_not(tmp_path, memory, fresh):
    other = tmp_path / "other.duckdb_extension"
    other.write_text("")
    memory.parent.mkdir(parents=True)
    memory.write_text(json.dumps({str(other): identity(other), "/gone": "1:2:3:4:5"}))
    accept(fresh, loading("httpfs"))
    assert set(json.loads(memory.read_text())) == {str(other), str(extension_file("httpfs"))}


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_memory_that_others_may_write_counts_for_nothing(tmp_path, memory, fresh, mode):
    path = copied(tmp_path)
    accept(fresh, load(path))
    memory.chmod(mode)
    assert load_known(fresh(), [load(path)]) == ()


@pytest.mark.parametrize("part", ["file", "folder", "base"])
def test_what_belongs_to_another_user_is_neither_read_nor_written(tmp_path, memory, fresh, monkeypatch, part):
    path = copied(tmp_path)
    accept(fresh, load(path))
    if part != "file":
        memory.unlink()
    if part == "base":
        memory.parent.rmdir()
        memory.parent.parent.rmdir()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert load_known(fresh(), [load(path)]) == ()
    before = memory.read_text() if part == "file" else None
    accept(fresh, loading("httpfs"))
    assert (memory.read_text() if memory.exists() else None) == before
    assert memory.parent.exists() == (part != "base")


@pytest.mark.parametrize("base", ["cache", "~/cache", "\0"])
def test_a_base_that_is_no_absolute_path_is_none(tmp_path, fresh, monkeypatch, base):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "somewhere")
    if "\0" not in base:
        monkeypatch.setenv("XDG_CACHE_HOME", base)
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
    accept(fresh, loading("httpfs"))
    assert [p.name for p in tmp_path.iterdir() if p.name != "own"] == []


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"a": 1}', b"null", b"\xff\xfe", b"[" * 200_000, b" " * 2_000_000 + b"{}"]
)
def test_a_torn_memory_is_none(memory, fresh, content):
    memory.parent.mkdir(parents=True)
    memory.write_bytes(content)
    accept(fresh, loading("httpfs"))
    assert list(json.loads(memory.read_text())) == [str(extension_file("httpfs"))]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_file_is_no_memory(tmp_path, memory, fresh, kind):
    path = copied(tmp_path)
    memory.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(memory)
    elif kind == "folder":
        memory.mkdir()
    else:
        (tmp_path / "elsewhere").write_text(json.dumps({str(path): identity(path)}))
        memory.symlink_to(tmp_path / "elsewhere")
    accept(fresh, load(path))


@pytest.mark.parametrize("more", ["INSTALL httpfs; {}", "{}; SELECT 1", "LOAD httpfs", "LOAD 'httpfs'", "{} "])
def test_what_is_more_than_a_load_of_one_file_is_left(tmp_path, fresh, more):
    accept(fresh, loading("httpfs"))
    database = fresh()
    platform = database.execute("PRAGMA platform").fetchall()[0][0]
    own = tmp_path / "own" / f"v{duckdb.__version__}" / platform
    own.mkdir(parents=True)
    shutil.copyfile(extension_file("httpfs"), own / "httpfs.duckdb_extension")
    made = Setup(more.replace("{}", loading("httpfs").sql), "extension")
    assert load_known(database, [made]) == ()
    assert loaded(database) == []


def test_an_extension_without_a_package_says_what_to_install():
    assert planned_loading("spatial") == ()
    with pytest.raises(ConnectorError) as caught:
        extension_file("spatial", otherwise="fly")
    assert caught.value.code == "PZ0311"
    assert str(caught.value.hint) == f"pip install duckdb-extension-spatial=={duckdb.__version__}, or fly"
