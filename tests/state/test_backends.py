"""What every state backend of the core must do; each test runs on both."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pz_core.contract import StateBackend
from pz_core.errors import PzError
from pz_core.plugins import Registry
from pz_core.state import entries as shared
from pz_core.state.local import LocalState
from pz_core.state.sqlite import SqliteState

BACKENDS = {"local": LocalState, "sqlite": SqliteState}
MARK = {"cursor": "id", "type": "bigint", "value": "9007199254740993", "runId": "20260101T000000000Z-0001"}


def opened(kind: str, root: Path) -> Any:
    return BACKENDS[kind]({}, str(root))


@pytest.fixture(params=sorted(BACKENDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> StateBackend:
    return opened(kind, tmp_path)  # type: ignore[no-any-return]


def refused(code: str, call: Any, *arguments: Any) -> PzError:
    with pytest.raises(PzError) as caught:
        call(*arguments)
    assert caught.value.code == code
    assert caught.value.hint
    return caught.value


def test_registry_offers_both() -> None:
    registry = Registry()
    assert {name: registry.load("state", name) for name in BACKENDS} == BACKENDS
    assert registry.registration("state", "sqlite").keys == ("path",)


def test_nothing_is_stored_at_first_and_reading_makes_no_file(store: StateBackend, tmp_path: Path) -> None:
    assert store.read("watermarks", "shop.orders") is None
    assert store.entries("watermarks") == {}
    assert store.faults == ()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_is_read_by_another_instance(kind: str, tmp_path: Path) -> None:
    payload = {**MARK, "note": 'ünï \u2028 \n\t"quoted" {x}', "nested": {"a": [1, 2.5, True]}, "long": 2**70}
    written = opened(kind, tmp_path).write("watermarks", "shop.orders", payload, None)
    found = opened(kind, tmp_path).read("watermarks", "shop.orders")
    assert found is not None and found.payload == payload and found.version == written.version


def test_entries_are_sorted_and_scopes_are_apart(store: StateBackend) -> None:
    for key in ("b.x", "a.x", "a.X", "B.x"):
        store.write("watermarks", key, {"value": key}, None)
    store.write("sync-state", "a.x", {"token": "t"}, None)
    assert list(store.entries("watermarks")) == ["B.x", "a.X", "a.x", "b.x"]
    assert {k: e.payload["value"] for k, e in store.entries("watermarks").items()} == {
        k: k for k in ("B.x", "a.X", "a.x", "b.x")
    }
    assert list(store.entries("sync-state")) == ["a.x"]


def test_an_update_needs_the_version_that_is_stored(store: StateBackend) -> None:
    first = store.write("watermarks", "k.k", {"value": "1"}, None)
    second = store.write("watermarks", "k.k", {"value": "2"}, first.version)
    assert second.version != first.version
    assert "k.k" in refused("PZ0520", store.write, "watermarks", "k.k", {"value": "3"}, first.version).message
    refused("PZ0520", store.write, "watermarks", "k.k", {"value": "3"}, None)
    refused("PZ0520", store.write, "watermarks", "absent.k", {"value": "3"}, first.version)
    found = store.read("watermarks", "k.k")
    assert found is not None and found.payload == {"value": "2"}
    assert store.read("watermarks", "absent.k") is None


def test_removing_needs_the_version_too(store: StateBackend) -> None:
    first = store.write("watermarks", "k.k", {"value": "1"}, None)
    store.write("watermarks", "other.k", {"value": "1"}, None)
    refused("PZ0520", store.remove, "watermarks", "k.k", "older")
    store.remove("watermarks", "k.k", first.version)
    assert list(store.entries("watermarks")) == ["other.k"]
    refused("PZ0520", store.remove, "watermarks", "k.k", first.version)
    store.write("watermarks", "k.k", {"value": "again"}, None)


@pytest.mark.parametrize("scope", ["../evil", "a/b", "", "Watermarks", "x.json", "a\n"])
def test_a_scope_cannot_lead_elsewhere(store: StateBackend, scope: str) -> None:
    with pytest.raises(ValueError, match="scope"):
        store.write(scope, "k.k", {"value": "1"}, None)
    with pytest.raises(ValueError, match="scope"):
        store.entries(scope)


def test_a_payload_without_a_json_form_changes_nothing(store: StateBackend) -> None:
    first = store.write("watermarks", "k.k", {"value": "1"}, None)
    with pytest.raises(ValueError):
        store.write("watermarks", "k.k", {"value": float("nan")}, first.version)
    found = store.read("watermarks", "k.k")
    assert found is not None and found.payload == {"value": "1"}


def test_describe_names_the_place_relative_to_the_project(store: StateBackend, tmp_path: Path) -> None:
    assert ".pz/state" in store.describe()
    assert str(tmp_path) not in store.describe()


def _count_up(kind: str, root: str, key: str, times: int, start: Any, lost: Any) -> None:
    store = opened(kind, Path(root))
    start.wait()
    races = 0
    for _ in range(times):
        while True:
            now = store.read("watermarks", key)
            value = 0 if now is None else int(str(now.payload["value"]))
            try:
                store.write("watermarks", key, {"value": value + 1}, None if now is None else now.version)
                break
            except PzError as error:
                assert error.code == "PZ0520"
                races += 1
    with lost.get_lock():
        lost.value += races


@pytest.mark.parametrize("keys", [["same.k"] * 3, ["a.k", "b.k", "c.k"]])
def test_processes_at_once_lose_no_update(kind: str, tmp_path: Path, keys: list[str]) -> None:
    context = multiprocessing.get_context("fork")
    start, lost = context.Barrier(len(keys)), context.Value("i", 0)
    workers = [
        context.Process(target=_count_up, args=(kind, str(tmp_path), key, 12, start, lost), daemon=True) for key in keys
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    stored = {k: e.payload["value"] for k, e in opened(kind, tmp_path).entries("watermarks").items()}
    assert stored == {key: 12 * keys.count(key) for key in set(keys)}
    if len(set(keys)) == len(keys):
        assert lost.value == 0


def test_threads_of_one_instance_lose_no_update(store: StateBackend) -> None:
    def work(name: str) -> None:
        version: str | None = None
        for number in range(10):
            version = store.write("watermarks", name, {"value": number}, version).version

    threads = [threading.Thread(target=work, args=(f"t{n}.k",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {k: e.payload["value"] for k, e in store.entries("watermarks").items()} == {f"t{n}.k": 9 for n in range(4)}


HOLD = {
    "local": "from filelock import FileLock; l = FileLock('.pz/state/watermarks.json.lock'); l.acquire()",
    "sqlite": "import sqlite3; c = sqlite3.connect('.pz/state/state.sqlite', isolation_level=None); "
    "c.execute('BEGIN EXCLUSIVE')",
}


def test_a_store_that_is_held_is_told_and_a_dead_holder_holds_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(kind, tmp_path).write("watermarks", "k.k", {"value": "1"}, None)
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{HOLD[kind]}; print('held', flush=True); import time; time.sleep(60)"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline().strip() == b"held"
        monkeypatch.setattr(shared, "LOCK_TIMEOUT_S", 0.15)
        error = refused("PZ0518", opened(kind, tmp_path).write, "watermarks", "other.k", {"value": "1"}, None)
        assert ".pz/state" in error.message and str(tmp_path) not in error.message
    finally:
        holder.kill()
        holder.wait()
    opened(kind, tmp_path).write("watermarks", "other.k", {"value": "1"}, None)


def test_a_folder_that_cannot_be_made_is_told(kind: str, tmp_path: Path) -> None:
    (tmp_path / ".pz").write_text("a file where a folder belongs", encoding="utf-8")
    error = refused("PZ0518", opened(kind, tmp_path).write, "watermarks", "k.k", {"value": "1"}, None)
    assert ".pz/state" in error.message


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EACCES, "PZ0531"),
        (errno.EROFS, "PZ0531"),
        (errno.ENOSPC, "PZ0532"),
        (errno.EDQUOT, "PZ0532"),
        (errno.EIO, "PZ0518"),
    ],
)
def test_what_the_system_refuses_has_a_code(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert ".pz/state" in refused(code, opened(kind, tmp_path).write, "watermarks", "k.k", {"v": 1}, None).message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_told(kind: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        refused("PZ0531", opened(kind, tmp_path).write, "watermarks", "k.k", {"v": 1}, None)
    finally:
        tmp_path.chmod(0o700)


# --- local ---------------------------------------------------------------------------------------------------------


def file(root: Path, scope: str = "watermarks") -> Path:
    return root / ".pz" / "state" / f"{scope}.json"


def test_the_file_is_made_for_reading(tmp_path: Path) -> None:
    store = LocalState({}, str(tmp_path))
    store.write("watermarks", "shop.orders", MARK, None)
    store.write("watermarks", "hr.badges", MARK, None)
    assert file(tmp_path).read_bytes().decode() == (
        "{\n"
        '  "version": 1,\n'
        '  "watermarks": {\n'
        '    "hr.badges": {\n'
        '      "cursor": "id",\n'
        '      "type": "bigint",\n'
        '      "value": "9007199254740993",\n'
        '      "runId": "20260101T000000000Z-0001"\n'
        "    },\n"
        '    "shop.orders": {\n'
        '      "cursor": "id",\n'
        '      "type": "bigint",\n'
        '      "value": "9007199254740993",\n'
        '      "runId": "20260101T000000000Z-0001"\n'
        "    }\n"
        "  }\n"
        "}\n"
    )
    store.write("sync-state", "api.items", {"token": "t", "runId": "r"}, None)
    assert json.loads(file(tmp_path, "sync-state").read_text(encoding="utf-8"))["syncState"]
    names = sorted(p.name for p in file(tmp_path).parent.iterdir())
    assert [n for n in names if not n.endswith(".lock")] == ["sync-state.json", "watermarks.json"]


TORN = [
    b"",
    b'{"version": 1, "watermarks": {"a.b": {"val',
    b"\xff\xfe\x00",
    b"[]",
    b'"text"',
    b'{"watermarks": {}}',
    b'{"version": true, "watermarks": {}}',
    b'{"version": "1", "watermarks": {}}',
    b'{"version": 1, "watermarks": []}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("content", TORN, ids=range(len(TORN)))
def test_an_unreadable_file_is_nothing_stored_with_a_note_and_the_next_write_replaces_it(
    tmp_path: Path, content: bytes
) -> None:
    file(tmp_path).parent.mkdir(parents=True)
    file(tmp_path).write_bytes(content)
    store = LocalState({}, str(tmp_path))
    assert store.entries("watermarks") == {}
    assert store.read("watermarks", "a.b") is None
    (note,) = store.faults
    assert note.severity == "note" and ".pz/state/watermarks.json" in note.message and "full extract" in note.message
    store.write("watermarks", "a.b", {"value": "1"}, None)
    assert store.faults == ()
    assert json.loads(file(tmp_path).read_text(encoding="utf-8")) == {
        "version": 1,
        "watermarks": {"a.b": {"value": "1"}},
    }


def test_one_bad_entry_spoils_no_other(tmp_path: Path) -> None:
    file(tmp_path).parent.mkdir(parents=True)
    file(tmp_path).write_text(
        '{"version": 1, "watermarks": {"a.a": {"value": "1"}, "b.b": 7, "c.c": {"value": NaN}}}', encoding="utf-8"
    )
    store = LocalState({}, str(tmp_path))
    assert list(store.entries("watermarks")) == ["a.a"]
    assert sorted(("b.b" in n.message, "c.c" in n.message) for n in store.faults) == [(False, True), (True, False)]
    store.write("watermarks", "b.b", {"value": "2"}, None)
    assert list(LocalState({}, str(tmp_path)).entries("watermarks")) == ["a.a", "b.b"]


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    file(tmp_path).parent.mkdir(parents=True)
    file(tmp_path).write_text('{"version": 2, "watermarks": {}}', encoding="utf-8")
    store = LocalState({}, str(tmp_path))
    refused("PZ0519", store.read, "watermarks", "a.b")
    refused("PZ0519", store.write, "watermarks", "a.b", {"value": "1"}, None)
    assert json.loads(file(tmp_path).read_text(encoding="utf-8"))["version"] == 2


def test_an_entry_that_was_edited_by_hand_counts_as_written_by_somebody_else(tmp_path: Path) -> None:
    store = LocalState({}, str(tmp_path))
    first = store.write("watermarks", "a.b", {"value": "1"}, None)
    file(tmp_path).write_text(
        "\ufeff" + file(tmp_path).read_text(encoding="utf-8").replace('"1"', '"5"'), encoding="utf-8"
    )
    refused("PZ0520", store.write, "watermarks", "a.b", {"value": "2"}, first.version)
    found = store.read("watermarks", "a.b")
    assert found is not None and found.payload == {"value": "5"}


def test_an_entry_that_was_only_laid_out_anew_did_not_change(tmp_path: Path) -> None:
    store = LocalState({}, str(tmp_path))
    first = store.write("watermarks", "a.b", MARK, None)
    document: Mapping[str, Any] = json.loads(file(tmp_path).read_text(encoding="utf-8"))
    file(tmp_path).write_text(json.dumps(document, sort_keys=True), encoding="utf-8")
    store.write("watermarks", "a.b", {**MARK, "value": "2"}, first.version)


def test_a_writer_that_died_half_way_leaves_the_old_file_and_its_litter_goes(tmp_path: Path) -> None:
    store = LocalState({}, str(tmp_path))
    first = store.write("watermarks", "a.b", {"value": "1"}, None)
    litter = file(tmp_path).with_name(".watermarks.json.123-abcd.tmp")
    litter.write_text('{"version": 1, "water', encoding="utf-8")
    found = store.read("watermarks", "a.b")
    assert found == first
    store.write("watermarks", "a.b", {"value": "2"}, first.version)
    assert not litter.exists()


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalState({}, str(tmp_path))
    first = store.write("watermarks", "a.b", {"value": "1"}, None)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        refused("PZ0532", store.write, "watermarks", "a.b", {"value": "2"}, first.version)
    assert store.read("watermarks", "a.b") == first
    assert not list(file(tmp_path).parent.glob(".*.tmp"))


def test_a_state_file_that_is_a_folder_is_told(tmp_path: Path) -> None:
    file(tmp_path).mkdir(parents=True)
    refused("PZ0518", LocalState({}, str(tmp_path)).read, "watermarks", "a.b")


# --- sqlite --------------------------------------------------------------------------------------------------------


def test_sqlite_versions_are_never_used_twice(tmp_path: Path) -> None:
    store = SqliteState({"path": "kept/here.db"}, str(tmp_path))
    first = store.write("watermarks", "a.b", {"value": "1"}, None)
    store.remove("watermarks", "a.b", first.version)
    again = store.write("watermarks", "a.b", {"value": "1"}, None)
    assert again.version != first.version
    assert (tmp_path / "kept" / "here.db").exists()
    store.close()
    assert SqliteState({"path": "kept/here.db"}, str(tmp_path)).read("watermarks", "a.b") == again


def test_sqlite_refuses_what_is_no_database_and_leaves_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary, " * 100, encoding="utf-8")
    store = SqliteState({"path": "notes.txt"}, str(tmp_path))
    assert "notes.txt" in refused("PZ0518", store.read, "watermarks", "a.b").message
    refused("PZ0518", store.write, "watermarks", "a.b", {"value": "1"}, None)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8").startswith("dear diary")


def test_sqlite_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    refused("PZ0519", SqliteState({"path": "s.db"}, str(tmp_path)).read, "watermarks", "a.b")


def test_sqlite_entry_that_cannot_be_read_is_nothing_stored_with_a_note(tmp_path: Path) -> None:
    store = SqliteState({"path": "s.db"}, str(tmp_path))
    store.write("watermarks", "a.b", {"value": "1"}, None)
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("UPDATE pz_state SET payload = '{torn'")
    connection.close()
    assert store.read("watermarks", "a.b") is None
    assert "a.b" in store.faults[0].message
    store.write("watermarks", "a.b", {"value": "2"}, None)
    assert store.faults == ()
