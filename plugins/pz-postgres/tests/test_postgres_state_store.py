"""The tables of the state backend ``postgres``: who may make them, what is refused, what is found broken."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest
from pz_postgres import state_schema
from pz_postgres.state import PostgresState

from pz_core.contract.connector import ConnectionConfig
from pz_core.contract.secrets import Secret
from pz_core.contract.state import KeepsRuns
from pz_core.errors import PzError, PzErrors
from pz_core.testkit.project import ProjectTester
from pz_core.testkit.proxy import DroppingProxy

MARK = {"cursor": "id", "type": "bigint", "value": "7", "runId": "r"}
RUN = "20260102T030405006Z-00aa"
DOCUMENT = {"version": 1, "runId": RUN, "status": "running", "startedAt": "2026-01-02T03:04:05.006Z"}


class Place:
    """A schema of one database."""

    def __init__(self, server) -> None:
        self.server = server
        self.schema = f"s_{uuid.uuid4().hex[:8]}"
        self._open: list[PostgresState] = []

    def config(self, **more) -> ConnectionConfig:
        options = {**self.server.options(), **more}
        options["password"] = Secret(str(options["password"]))
        return ConnectionConfig("warehouse", "postgres", options, ".")

    def opened(self, *, settings=(), **more) -> PostgresState:
        made = PostgresState(
            {"connection": self.config(**more), "schema": self.schema, "project": "shop", **dict(settings)}, "."
        )
        self._open.append(made)
        return made

    def ask(self, sql: str, *params: object) -> list[tuple]:
        return self.server.run(sql.replace("{s}", self.schema), *params)

    def close(self) -> None:
        for each in self._open:
            each.close()


@pytest.fixture
def place(pg18):
    made = Place(pg18)
    yield made
    made.close()


def refused(call, code: str) -> PzError:
    with pytest.raises(PzError) as caught:
        call()
    assert caught.value.code == code, caught.value.render()
    assert caught.value.hint
    return caught.value


def plain_user(place: Place) -> dict[str, object]:
    name = f"u_{uuid.uuid4().hex[:8]}"
    place.ask(f"CREATE ROLE {name} LOGIN PASSWORD 'plain-pass-1'")
    return {"user": name, "password": "plain-pass-1"}


# --- the tables ------------------------------------------------------------------------------------------------------


def test_first_use_by_many_at_once_makes_the_tables_once(place) -> None:
    errors: list[Exception] = []

    def use(number: int) -> None:
        try:
            place.opened().write("watermarks", f"k.{number}", MARK, None)
        except Exception as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert place.ask("SELECT version FROM {s}.schema_version") == [(state_schema.VERSION,)]
    assert len(place.opened().entries("watermarks")) == 8


def test_a_store_of_a_newer_pz_is_left_alone(place) -> None:
    place.opened().write("watermarks", "a.b", MARK, None)
    place.ask("UPDATE {s}.schema_version SET version = version + 1")
    error = refused(lambda: place.opened().entries("watermarks"), "PZ0519")
    assert f"version {state_schema.VERSION + 1}, this one knows {state_schema.VERSION}" in error.message


def test_an_older_store_is_migrated_in_one_step_or_not_at_all(place, monkeypatch) -> None:
    place.opened().write("watermarks", "a.b", MARK, None)
    broken = (*state_schema.MIGRATIONS, ("ALTER TABLE {s}.state ADD COLUMN more text", "SELECT no_such_function()"))
    monkeypatch.setattr(state_schema, "MIGRATIONS", broken)
    monkeypatch.setattr(state_schema, "VERSION", 2)
    assert "no_such_function" in refused(lambda: place.opened().entries("watermarks"), "PZ0519").message
    assert place.ask("SELECT version FROM {s}.schema_version") == [(1,)]
    monkeypatch.setattr(state_schema, "MIGRATIONS", (*broken[:-1], broken[-1][:1]))
    assert place.opened().read("watermarks", "a.b").payload == MARK
    assert place.ask("SELECT version FROM {s}.schema_version") == [(2,)]
    assert place.ask("SELECT more FROM {s}.state") == [(None,)]


def test_a_migration_that_somebody_else_is_at_is_waited_for_only_so_long(place, monkeypatch) -> None:
    monkeypatch.setattr(state_schema, "LOCK_TIMEOUT_MS", 200)
    with place.server.connect() as holder, holder.transaction():
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (state_schema.advisory_key("schema", place.schema),))
        refused(lambda: place.opened().entries("watermarks"), "PZ0528")
        assert place.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", place.schema) == []
    assert place.opened().entries("watermarks") == {}


def test_rights_that_lack_are_told_and_few_are_enough(place) -> None:
    user = plain_user(place)
    error = refused(lambda: place.opened(**user).entries("watermarks"), "PZ0519")
    assert "permission denied" in error.message and "42501" in error.message
    place.opened().write("watermarks", "a.b", MARK, None)
    place.ask(f"GRANT USAGE ON SCHEMA {{s}} TO {user['user']}")
    place.ask(f"GRANT SELECT ON ALL TABLES IN SCHEMA {{s}} TO {user['user']}")
    store = place.opened(**user)
    entry = store.read("watermarks", "a.b")
    refused(lambda: store.write("watermarks", "a.b", {"value": "8"}, entry.version), "PZ0529")
    place.ask(f"GRANT INSERT, UPDATE ON {{s}}.runs TO {user['user']}")
    assert "lacks INSERT, UPDATE, DELETE" in refused(lambda: store.run_store().begin(DOCUMENT), "PZ0529").message
    place.ask(f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {{s}} TO {user['user']}")
    store.write("watermarks", "a.b", {"value": "8"}, entry.version)
    runs = store.run_store()
    runs.begin(DOCUMENT)
    runs.end({**DOCUMENT, "status": "success", "nodes": [node(1)]})
    assert runs.remove(RUN) == "removed"


# --- what is refused -------------------------------------------------------------------------------------------------


def test_names_that_the_server_would_cut_are_refused(place) -> None:
    store = place.opened()
    refused(lambda: store.write("watermarks", "k" * 513, MARK, None), "PZ0536")
    refused(lambda: store.write("watermarks", "a\0b", MARK, None), "PZ0536")
    refused(lambda: store.write("w" * 33, "a.b", MARK, None), "PZ0536")
    refused(lambda: place.opened(settings={"schema": "ü" * 32}), "PZ0536")
    assert store.entries("watermarks") == {}


def test_settings_that_name_no_server_are_refused_without_asking_one(place) -> None:
    refused(lambda: PostgresState({}, "."), "PZ0125")
    refused(lambda: PostgresState({"connection": "warehouse"}, "."), "PZ0125")
    foreign = ConnectionConfig("lake", "s3", {"bucket": "b"}, ".")
    assert "s3" in refused(lambda: PostgresState({"connection": foreign}, "."), "PZ0125").message
    error = refused(lambda: PostgresState({"connection_string": Secret("Server=x;Password=hunter2")}, "."), "PZ0125")
    assert "hunter2" not in f"{error.render()}{error.cause!r}{error.__context__!r}"
    with pytest.raises(PzErrors) as caught:
        place.opened(hots="x", port="many")
    assert [error.code for error in caught.value] == ["PZ0301", "PZ0301"]


def test_a_wrong_password_is_told_without_it(place) -> None:
    error = refused(lambda: place.opened(password="not-the-one").entries("watermarks"), "PZ0518")
    assert "not-the-one" not in error.render() and "password" in error.render()


def test_what_is_no_payload_counts_as_nothing_stored_and_may_be_replaced(place) -> None:
    place.opened().write("watermarks", "a.b", MARK, None)
    place.ask("UPDATE {s}.state SET payload = '[1]'")
    store = place.opened()
    assert store.entries("watermarks") == {} and store.read("watermarks", "a.b") is None
    assert "a.b" in store.faults[0].message
    other = place.opened()
    assert other.read("watermarks", "a.b") is None
    store.write("watermarks", "a.b", {"value": "8"}, None)
    refused(lambda: other.write("watermarks", "a.b", {"value": "9"}, None), "PZ0520")
    assert store.read("watermarks", "a.b").payload == {"value": "8"} and store.faults == ()


# --- a connection that breaks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("swallow", [True, False], ids=["the answer is lost", "the change is lost"])
def test_a_change_whose_answer_is_lost_is_made_once(place, swallow) -> None:
    first = place.opened().write("watermarks", "a.b", MARK, None)
    place.opened().write("watermarks", "c.d", MARK, None)
    with DroppingProxy((place.server.host, place.server.port)) as proxy:
        store = place.opened(port=proxy.port, ssl_mode="disable")
        gone = store.read("watermarks", "c.d")
        proxy.times, proxy.after_seeing, proxy.swallow_answer = 2, b"UPDATE ", swallow
        proxy.drop_all()
        store.read("watermarks", "c.d")
        refused(lambda: store.write("watermarks", "a.b", {"value": "8"}, first.version), "PZ0518")
        proxy.times, proxy.after_seeing = 0, None
        store.write("watermarks", "a.b", {"value": "8"}, first.version)  # the same again, as a run gives it
        refused(lambda: store.write("watermarks", "a.b", {"value": "9"}, first.version), "PZ0520")
        proxy.times, proxy.dropped, proxy.after_seeing = 1, 0, b"DELETE "
        proxy.drop_all()
        store.read("watermarks", "c.d")
        store.remove("watermarks", "c.d", gone.version)
        refused(lambda: store.remove("watermarks", "c.d", gone.version), "PZ0520")
    assert {k: e.payload for k, e in place.opened().entries("watermarks").items()} == {"a.b": {"value": "8"}}


def test_a_server_that_was_killed_leaves_old_or_new_and_is_found_again(tmp_path) -> None:
    from servers.postgres import start_postgres

    server = start_postgres(18, {"fsync": "on", "synchronous_commit": "on"})
    try:
        place = Place(server.address)
        store, watcher = place.opened(connect_timeout_seconds=2), place.opened()
        stored = store.write("watermarks", "a.b", MARK, None)
        store.run_store().begin(DOCUMENT)
        server.kill()
        refused(lambda: store.write("watermarks", "a.b", {"value": "8"}, stored.version), "PZ0518")
        refused(lambda: store.run_store().add(RUN, 0, [node(1)]), "PZ0518")
        server.restart()
        assert watcher.read("watermarks", "a.b").payload == MARK
        assert not watcher.run_store().heads()[0].live
        store.write("watermarks", "a.b", {"value": "8"}, stored.version)
        assert watcher.run_store().heads()[0].live  # the lock was taken again with the connection
        store.run_store().end({**DOCUMENT, "status": "success", "nodes": [node(1), node(2)]})
        assert watcher.run_store().documents([RUN])[RUN]["nodes"] == [node(1), node(2)]
        place.close()
    finally:
        server.stop()


# --- runs ------------------------------------------------------------------------------------------------------------


def node(number: int, **more) -> dict:
    return {"id": f"n{number}", "kind": "Pipeline", "name": f"nom {number} ü\0", "status": "success", "rows": 2**40,
            "durationMs": 5, "error": None, **more}  # fmt: skip


def test_a_run_is_read_back_as_it_was_written_and_writing_again_adds_nothing(place) -> None:
    store = place.opened()
    assert isinstance(store, KeepsRuns)
    runs = store.run_store()
    failed = node(2, status="failed", error={"code": "PZ0812", "message": "ünï \ud800"}, watermark={"cursor": "id"})
    runs.begin(DOCUMENT)
    runs.add(RUN, 0, [node(1)])
    runs.add(RUN, 0, [node(1), failed])
    whole = {**DOCUMENT, "status": "completed_with_failures", "finishedAt": "2026-01-02T03:04:06.000Z", "retryOf": "x",
             "eventsDropped": 3, "nodes": [node(1), failed, node(3)]}  # fmt: skip
    runs.end(whole)
    runs.end(whole)
    assert runs.documents([RUN, "other"]) == {RUN: whole}
    assert place.ask("SELECT position, error_code, rows_moved FROM {s}.run_nodes ORDER BY position") == [
        (0, None, 2**40), (1, "PZ0812", 2**40), (2, None, 2**40),
    ]  # fmt: skip
    assert place.ask("SELECT project, status, events_dropped, finished_at - started_at FROM {s}.runs")[0][:3] == (
        "shop", "completed_with_failures", 3,
    )  # fmt: skip


def test_a_run_lives_as_long_as_its_connection(place) -> None:
    worker, watcher = place.opened(), place.opened()
    worker.run_store().begin(DOCUMENT)
    assert [(head.status, head.live) for head in watcher.run_store().heads()] == [("running", True)]
    assert watcher.run_store().remove(RUN) == "live" == worker.run_store().remove(RUN)
    other = place.opened()
    refused(lambda: other.run_store().begin(DOCUMENT), "PZ0529")
    worker.close()
    until_free(watcher)
    assert watcher.run_store().remove(RUN) == "removed" and watcher.run_store().remove(RUN) == "absent"
    assert watcher.run_store().heads() == ()


def until_free(store: PostgresState) -> None:
    for _ in range(200):
        if not store.run_store().heads()[0].live:
            return
        threading.Event().wait(0.02)
    raise AssertionError("the lock was never given back")


def test_a_run_that_was_swept_meanwhile_is_stored_again_at_its_end(place) -> None:
    runs = place.opened().run_store()
    runs.begin(DOCUMENT)
    place.ask("DELETE FROM {s}.runs")
    refused(lambda: runs.add(RUN, 0, [node(1)]), "PZ0529")
    runs.end({**DOCUMENT, "status": "success", "nodes": [node(1)]})
    assert runs.documents([RUN])[RUN]["nodes"] == [node(1)]


def test_runs_of_another_project_are_not_seen_and_not_touched(place) -> None:
    runs, others = place.opened().run_store(), place.opened(settings={"project": "other"}).run_store()
    runs.end({**DOCUMENT, "status": "success", "nodes": []})
    assert others.heads() == () and others.documents([RUN]) == {} and others.remove(RUN) == "absent"
    refused(lambda: others.end({**DOCUMENT, "status": "fatal", "nodes": []}), "PZ0529")
    assert [head.status for head in runs.heads()] == ["success"]


# --- many at once ----------------------------------------------------------------------------------------------------


def many_runs(place: Place, base: Path, processes: int) -> None:
    """So many machines run the project at once, each a dataset of its own, twice."""
    env = {**os.environ, "PG_PASSWORD": place.server.password}
    machines = []
    for number in range(processes):
        folder = base / f"m{number}"
        folder.mkdir()
        machine = ProjectTester(folder, env={"PG_PASSWORD": place.server.password})
        options = {**place.server.options(), "password": "${PG_PASSWORD}", "connect_timeout_seconds": 60}
        files = {"connector": "localfiles", "root": "in"}
        machine.write(
            {
                "project.yml": {
                    "name": "shared",
                    "retention": {"keep_last": 5},
                    "state": {"backend": "postgres", "connection": "warehouse", "schema": place.schema},
                },
                "connections.yml": {
                    "warehouse": {"connector": "postgres", **options},
                    "files": files,
                    "lake": {"connector": "localfiles", "root": "out"},
                },
                "in/rows.csv": "id\n1\n2\n",
                "pipelines/rows.sql": "INSERT INTO {{ sink('lake', 'rows', strategy: 'append', duplicates: 'accept', "
                f"format: 'csv') }}}}\nSELECT * FROM {{{{ source('files', 'rows{number}', path: 'rows.csv', columns: "
                "{id: 'bigint'}, sync: {mode: 'incremental', cursor: 'id'}) }}\n",
            }
        )
        machines.append(machine)
    for passing in (1, 2):
        for machine in machines:
            machine.write({"in/rows.csv": "id\n" + "".join(f"{n}\n" for n in range(1, 2 + passing))})
        going = [
            subprocess.Popen(
                [sys.executable, "-m", "pz_core", "run"], cwd=machine.folder, env=env, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for machine in machines
        ]  # fmt: skip
        ended = [(process.communicate(timeout=500)[1], process.returncode) for process in going]
        assert [end for end in ended if end[1] != 0] == []
    stored = place.ask("SELECT state_key, payload ->> 'value' FROM {s}.state WHERE scope = 'watermarks'")
    assert dict(stored) == {f"files.rows{number}": "3" for number in range(processes)}
    kept = place.ask("SELECT count(*), count(*) FILTER (WHERE status = 'success') FROM {s}.runs")
    assert kept[0][0] == kept[0][1] >= min(5, 2 * processes)


def test_six_runs_of_different_datasets_at_once_lose_nothing(place, tmp_path) -> None:
    many_runs(place, tmp_path, 6)


@pytest.mark.deep
def test_fifty_runs_of_different_datasets_at_once_lose_nothing(place, tmp_path) -> None:
    many_runs(place, tmp_path, 50)
