from __future__ import annotations

import pytest

from pz_core.errors import PzErrors
from pz_core.project import load_state_config
from pz_core.project.model import StateConfig

from .conftest import BASE, Folder


def state(folder: Folder, text: str) -> Folder:
    return folder.write({"project.yml": BASE + f"state: {text}\n"})


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("{backend: local, schema: audit}", "PZ0124", ["schema", "local"]),
        ("{backend: oracle}", "PZ0124", ["oracle"]),
        ("{backend: [x]}", "PZ0124", []),
        ("{backend: local, artifacts: true}", "PZ0124", ["artifacts"]),
        ("{backend: http, url: 'https://h/x', artifacts: true}", "PZ0124", ["artifacts"]),
        ("{backend: http, url: 'https://h/x', timeout_seconds: 0}", "PZ0124", ["timeout_seconds"]),
        ("{backend: sqlserver, connection: c, artifacts: yes}", "PZ0124", ["artifacts"]),
        ("{backend: sqlserver, connection: c, artifacts: false, events: true}", "PZ0124", ["events", "artifacts"]),
        ("{backend: sqlserver, connection: c, schem: x}", "PZ0124", ["schem", "did you mean 'schema'"]),
        ("{backend: postgres}", "PZ0125", ["connection", "PZ_STATE_CONNECTION_STRING"]),
        ("{backend: postgres, connection: d}", "PZ0125", ["'d'"]),
        ("{backend: postgres, connection: c}", "PZ0125", ["sqlserver", "postgres"]),
        ("{backend: http}", "PZ0125", ["url"]),
        ("{backend: http, url: 'ftp://h'}", "PZ0125", ["url"]),
        ("{backend: http, url: 'https:///x'}", "PZ0125", ["url"]),
    ],
)
def test_a_block_that_names_no_usable_store_is_refused(folder: Folder, text: str, code: str, words: list[str]) -> None:
    state(folder, text).write({"connections.yml": "c: {connector: sqlserver}\n"})
    assert folder.faults() == [f"{code} project.yml:3"]
    for word in words:
        assert word in folder.lines()


@pytest.mark.parametrize(
    "text",
    [
        "Server=db;Password=hunter2",
        "{backend: 'Server=db;Password=hunter2'}",
        "{backend: sqlserver, connection: 'Server=db;Password=hunter2'}",
        "{backend: http, url: 'ftp://u:hunter2@h'}",
        "{backend: http, url: 'https://[hunter2'}",
        "[hunter2]",
        "{backend: sqlserver, connection: c, artifacts: hunter2}",
    ],
)
def test_no_value_of_the_block_stands_in_a_message(folder: Folder, text: str) -> None:
    assert "hunter2" not in state(folder, text).write({"connections.yml": "c: {connector: sqlserver}\n"}).lines()


def test_the_file_beats_the_environment_and_the_environment_the_default(folder: Folder) -> None:
    env = {
        "PZ_STATE_BACKEND": "sqlserver",
        "PZ_STATE_SCHEMA": "audit",
        "PZ_STATE_EVENTS": "TRUE",
        "PZ_STATE_CONNECTION_STRING": "x",
    }
    made = folder.load(**env).project.state
    assert (made.backend, made.settings, made.artifacts, made.events) == ("sqlserver", {"schema": "audit"}, True, True)
    assert (made.declared, made.from_env) == (False, {"backend", "schema", "events"})
    assert state(folder, "{backend: local}").load(**env).project.state.backend == "local"
    made = state(folder, "{backend: sqlserver, schema: own, events: false}").load(**env).project.state
    assert (made.settings, made.events, made.declared, made.from_env) == ({"schema": "own"}, False, True, frozenset())


@pytest.mark.parametrize("name", ["PZ_STATE_EVENTS", "PZ_STATE_ARTIFACTS", "PZ_STATE_BACKEND"])
def test_an_environment_value_that_means_nothing_is_refused_by_name(folder: Folder, name: str) -> None:
    assert folder.faults(**{name: "maybe?"}) == ["PZ0124 project.yml"]
    assert name in folder.lines(**{name: "maybe?"})
    folder.load(**{name: ""})


def test_the_named_connection_comes_along(folder: Folder) -> None:
    state(folder, "{backend: postgres, connection: c}").write(
        {"connections.yml": "c: {connector: postgres, password: '${P}'}\n"}
    )
    made = folder.load(P="hunter2").project.state
    assert made.connection is not None
    assert made.connection.config == {"password": "hunter2"}
    assert "hunter2" not in repr(made)


def test_management_verbs_read_the_state_of_a_broken_project(folder: Folder) -> None:
    folder.write(
        {
            "project.yml": "name: a\nnonsense: 1\nname: b\nengine: {threads: 0}\nretention: {keep_last: 3}\n"
            "state: {backend: sqlserver, connection: store}\n",
            "connections.yml": "bad: 5\nother: {connector: pg, x: '${UNSET}'}\nstore: {connector: sqlserver, "
            "host: '${H}'}\n",
            "pipelines/1bad.sql": "{{",
        }
    )
    with pytest.raises(PzErrors):
        folder.load(H="h")
    made, keep = load_state_config(folder.root, {"H": "h"})
    assert (made.backend, keep) == ("sqlserver", 3)
    assert made.connection is not None
    assert made.connection.config == {"host": "h"}
    folder.write({"connections.yml": "a: [\n", "project.yml": BASE + "retention: {keep_last: 0}\n"})
    assert load_state_config(folder.root, {}) == (StateConfig(), 10)


def test_management_verbs_need_a_project_and_a_usable_block(folder: Folder) -> None:
    for files in ({"project.yml": "a: [\n"}, {"project.yml": BASE + "state: {backend: oracle}\n"}):
        folder.write(files)
        with pytest.raises(PzErrors):
            load_state_config(folder.root, {})
    (folder.root / "project.yml").unlink()
    with pytest.raises(PzErrors):
        load_state_config(folder.root, {})
