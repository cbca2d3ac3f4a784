from __future__ import annotations

import pytest

from pz_core.project.requirements import satisfies, specifier

from .conftest import BASE, Folder


def project(folder: Folder, text: str) -> Folder:
    return folder.write({"project.yml": BASE + text})


def test_a_folder_without_a_project_file_says_only_that(folder: Folder) -> None:
    (folder.root / "project.yml").unlink()
    folder.write({"connections.yml": "a: [", "pipelines/configs/x.yml": "a: ["})
    assert folder.faults() == ["PZ0101 project.yml"]
    folder.write({"project.yaml": BASE})
    assert "rename project.yaml" in folder.lines()
    assert "PZ0135" in folder.lines()


def test_one_broken_file_hides_no_other_and_all_is_sorted(folder: Folder) -> None:
    folder.write(
        {
            "project.yml": BASE + "threds: 4\nengine: {threads: 0}\n",
            "connections.yml": "yard: {connector: [\n",
            "pipelines/a.sql": "select 1",
            "pipelines/configs/a.yml": "pipeline: b\n",
            "pipelines/configs/c.yml": "[\n",
            "sinks/old.yml": "sink: x\n",
            "pipelines/1.sql": "select 1",
        }
    )
    assert folder.faults() == [
        "PZ0101 connections.yml:2",
        "PZ0136 pipelines/1.sql",
        "PZ0111 pipelines/configs/a.yml:1",
        "PZ0101 pipelines/configs/c.yml:2",
        "PZ0101 project.yml:3",
        "PZ0120 project.yml:4",
        "PZ0346 sinks/old.yml",
    ]


@pytest.mark.parametrize("text", ["name: a\nversion: [1]\n", "name:\nversion: 1\n", "version: 0.1\nname: ''\n"])
def test_name_and_version_must_be_texts(folder: Folder, text: str) -> None:
    folder.write({"project.yml": text})
    assert [f.split()[0] for f in folder.faults()] == ["PZ0101"]


def test_an_unquoted_version_of_the_project_keeps_its_spelling(folder: Folder) -> None:
    assert folder.write({"project.yml": "name: a\nversion: 1.10\n"}).load().project.version == "1.10"


@pytest.mark.parametrize("key", ["threds", "sources"])
def test_an_unknown_key_is_refused_by_name(folder: Folder, key: str) -> None:
    assert f"PZ0101: project.yml has no key '{key}' (project.yml:3)" in project(folder, f"{key}: 1\n").lines()


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ('">=1.0 <2.0"', None),
        ('">= 1.0 , < 2.0"', None),
        ("'1.0'", None),
        ("1.0", None),
        ('"==1.*"', None),
        ('">=99.0"', "PZ0138"),
        ('">=97.0 <98.5"', "PZ0138"),
        ("2", "PZ0138"),
        ('"^1.0"', "PZ0101"),
        ("[1]", "PZ0101"),
        ("latest", "PZ0101"),
    ],
)
def test_the_engine_version_is_checked(folder: Folder, wanted: str, code: str | None) -> None:
    project(folder, f"pz: {wanted}\n")
    if code is None:
        folder.load()
    else:
        assert folder.faults() == [f"{code} project.yml:3"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.1.4", "==2.1.4"),
        (">=1.0 <2.0", "<2.0,>=1.0"),
        (">=1.0,<2.0", "<2.0,>=1.0"),
        (" ~=1.4 ", "~=1.4"),
        ("", None),
        ("*", None),
        (">=1.0 2.0", None),
        ("[1.0,2.0)", None),
    ],
)
def test_versions_become_specifiers(text: str, expected: str | None) -> None:
    assert specifier(text) == expected


def test_a_prerelease_can_satisfy_a_range() -> None:
    assert satisfies("1.1.0rc1", ">=1.0")


def test_packages_are_read_with_their_names_normalised(folder: Folder) -> None:
    loaded = project(
        folder,
        "connectors:\n  - package: Pz.Connector.Postgres\n    version: 2.1.4\n    isolation: process\n"
        "  - {package: pz_connector_elsewhere}\n"
        'plugins:\n  - {package: Acme.Strategy.Fold, version: ">=1.0 <2.0"}\n',
    ).load()
    first, second = loaded.project.connectors
    assert (first.name, first.specifier, first.isolation, first.where.line) == (
        "pz-connector-postgres",
        "==2.1.4",
        "process",
        4,
    )
    assert (second.name, second.specifier, second.version) == ("pz-connector-elsewhere", "", None)
    assert loaded.project.plugins[0].specifier == "<2.0,>=1.0"
    assert loaded.registry.names("connector") == ()
    assert "merge" in loaded.registry.names("strategy")


def test_without_a_list_every_installed_plugin_can_be_used(folder: Folder) -> None:
    assert "localfiles" in folder.load().registry.names("connector")
    assert "localfiles" in project(folder, "connectors: []\n").load().registry.names("connector")


@pytest.mark.parametrize(
    ("item", "word"),
    [
        ("{package: A, version: 1.10}", "unquoted"),
        ("A.B", "mapping"),
        ("{version: '1'}", "package"),
        ("{package: A, versoin: '1'}", "version"),
        ("{package: 'a b'}", "package"),
        ("{package: A, version: banana}", "banana"),
    ],
)
def test_a_malformed_package_is_refused_at_its_line(folder: Folder, item: str, word: str) -> None:
    project(folder, f"connectors:\n  - {item}\n")
    assert folder.faults() == ["PZ0101 project.yml:4"]
    assert word in folder.lines()


def test_an_unknown_way_to_isolate_is_refused_at_its_line(folder: Folder) -> None:
    project(folder, "connectors:\n  - {package: A, isolation: thread}\n")
    assert folder.faults() == ["PZ0306 project.yml:4"]


def test_isolation_is_for_connectors_alone(folder: Folder) -> None:
    assert project(folder, "plugins: [{package: a, isolation: process}]\n").faults() == ["PZ0101 project.yml:3"]


def test_a_package_listed_twice_needs_one_version(folder: Folder) -> None:
    project(folder, "connectors:\n  - {package: A.B, version: 1.0.0}\nplugins:\n  - {package: a_b, version: 2.0.0}\n")
    assert folder.faults() == ["PZ0139 project.yml:6"]
    same = project(folder, "connectors: [{package: A.B, version: 1.0.0}, {package: a-b, version: '==1.0.0'}]\n").load()
    assert "twice" in same.notices[0].message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("env: {A: b}", "PZ0101"),
        ("env: [1A]", "PZ0101"),
        ("env: [[A]]", "PZ0101"),
        ("vars: [1]", "PZ0102"),
        ("vars: text", "PZ0102"),
        ("on_source_drift: alert", "PZ0126"),
        ("feeds: [x]", "PZ0352"),
        ("retention: 10", "PZ0123"),
        ("retention: {}", "PZ0123"),
        ("retention: {keep_last: '5'}", "PZ0123"),
        ("retention: {keep_last: 5, keep: 1}", "PZ0123"),
        ("engine: 4", "PZ0120"),
        ("engine: {threads: '4'}", "PZ0120"),
        ("engine: {threads: 4.5}", "PZ0120"),
        ("engine: {thread: 4}", "PZ0120"),
        ("engine: {batch_bytes: 1048575}", "PZ0120"),
        ("engine: {batch_bytes: 536870913}", "PZ0120"),
        ("engine: {force_universal: yes}", "PZ0120"),
        ("engine: {check_samples: 'true'}", "PZ0120"),
        ("engine: {duckdb: 8GB}", "PZ0120"),
        ("engine: {duckdb: {threads: few}}", "PZ0120"),
        ("engine: {duckdb: {memory: 1}}", "PZ0120"),
        ("engine: {breaker: 3}", "PZ0120"),
        ("engine: {node_timeout: 0s}", "PZ0120"),
        ("engine: {node_timeout: 5m2s}", "PZ0120"),
        ("engine: {breaker: {failure_threshold: 2147483648, cool_down: 1s}}", "PZ0120"),
        ("engine: {name: spark}", "PZ0120"),
    ],
)
def test_a_setting_out_of_its_bounds_is_refused(folder: Folder, text: str, code: str) -> None:
    assert project(folder, text + "\n").faults() == [f"{code} project.yml:3"]


def test_an_item_of_env_is_not_shown_since_it_may_hold_a_value(folder: Folder) -> None:
    assert "hunter2" not in project(folder, "env: [PASSWORD=hunter2]\n").lines()


def test_every_fault_of_a_breaker_is_told(folder: Folder) -> None:
    assert folder.write({"project.yml": BASE + "engine: {breaker: {}}\n"}).faults() == ["PZ0120 project.yml:3"] * 2


def test_settings_have_defaults_and_keys_without_a_body_mean_them(folder: Folder) -> None:
    plain = folder.load().project
    bare = (
        project(folder, "engine:\nretention:\nvars:\nenv:\nstate:\nconnectors:\nplugins:\non_source_drift:\npz:\n")
        .load()
        .project
    )
    for made in (plain, bare):
        assert (made.engine.threads, made.engine.batch_bytes, made.engine.check_samples) == (4, 33_554_432, True)
        assert (made.retention, made.on_source_drift, made.state.backend, made.vars) == (10, "ignore", "local", {})


def test_settings_are_read(folder: Folder) -> None:
    engine = (
        project(
            folder,
            "engine: {threads: 2, batch_bytes: 536870912, force_universal: true, node_timeout: 90s, "
            "breaker: {failure_threshold: 3, "
            "cool_down: 500ms}, duckdb: {memory_limit: 8GB, threads: 8, temp_directory: .pz/tmp}}\n"
            "retention: Off\nenv: [B, A, B]\n",
        )
        .load()
        .project
    )
    made = engine.engine
    assert (made.threads, made.force_universal, made.node_timeout_ms, made.memory_limit, made.duckdb_threads) == (
        2,
        True,
        90_000,
        "8GB",
        8,
    )
    assert made.breaker is not None
    assert (made.breaker.failure_threshold, made.breaker.cool_down_ms) == (3, 500)
    assert (engine.retention, engine.env) == (None, ("B", "A"))


def test_variables_of_the_command_line_replace_whole_variables(folder: Folder) -> None:
    project(folder, "vars: {floor: 10, shelf: {a: 1, b: 2}, tag: x}\n")
    made = folder.load('{"floor": 25, "shelf": {"c": 3}, "new": [1.5, "t"]}').project.vars
    assert made == {"floor": 25, "shelf": {"c": 3}, "tag": "x", "new": [1.5, "t"]}


@pytest.mark.parametrize(
    "text", ["[1]", "{deck", "5", "", '{"a": NaN}', '{"a": null}', '{"a": [{"b": null}]}', '{"a": 1, "a": 2}']
)
def test_vars_of_the_command_line_must_be_an_object_without_surprises(folder: Folder, text: str) -> None:
    (fault,) = folder.refusal(text)
    assert (fault.code, "--vars" in fault.message) == ("PZ0102", True)


def test_a_file_in_another_encoding_is_refused_at_its_line(folder: Folder) -> None:
    folder.write({"project.yml": b"name: a\nversion: '1'\nvars: {x: \xff}\n", "pipelines/a.sql": b"select\n'\xe9'\n"})
    assert folder.faults() == ["PZ0104 pipelines/a.sql:2", "PZ0101 project.yml:3"]
