from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pz_core.cli import schema_export
from pz_core.cli.templates import TEMPLATES
from pz_core.errors import Problems
from pz_core.project.yaml import Items, Node, Text, read_yaml

NAMES = ("project", "connections", "sidecar")


def plain(node: Node) -> Any:
    """A file as an editor sees it: a key without a value is null."""
    if isinstance(node, Text):
        return None if node.blank else node.value
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return {key: plain(entry.node) for key, entry in node.fields.items()}


def start(folder: Path, text: str = "name: a\nversion: 0.1.0\n") -> None:
    (folder / "project.yml").write_text(text)


def test_three_schemas_are_written_always_the_same(pz: Any, tmp_path: Path) -> None:
    start(tmp_path)
    said = pz("schema", "export")
    assert said.code == 0 and said.err == ""
    assert said.out.splitlines() == [f"wrote .pz/schemas/{name}.schema.json" for name in NAMES]
    folder = tmp_path / ".pz" / "schemas"
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(first) == {f"{name}.schema.json" for name in NAMES}
    for content in first.values():
        assert content.endswith(b"}\n")
        Draft202012Validator.check_schema(json.loads(content))
    assert pz("schema", "export", "--out", "elsewhere/deep").code == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "elsewhere" / "deep").iterdir()} == first


def test_json_prints_one_document_and_writes_nothing(pz: Any, tmp_path: Path) -> None:
    said = pz("schema", "export", "--json")
    assert said.code == 0
    assert tuple(json.loads(said.out)) == NAMES
    assert list(tmp_path.iterdir()) == []
    assert pz("schema", "export", "--json", "--out", "x").code == 2


def test_without_a_project_a_folder_must_be_named(pz: Any, tmp_path: Path) -> None:
    said = pz("schema", "export")
    assert said.code == 2 and "PZ0101" in said.err
    assert not (tmp_path / ".pz").exists()
    assert pz("schema", "export", "--out", "here").code == 0


@pytest.mark.parametrize("text", ["name: [\n", "nam: a\nengine: {threads: -1}\n", ""])
def test_a_project_that_does_not_load_still_gets_its_schemas(pz: Any, tmp_path: Path, text: str) -> None:
    start(tmp_path, text)
    assert pz("schema", "export").code == 0


def test_options_are_those_of_packages_that_the_project_lists(pz: Any, tmp_path: Path) -> None:
    start(tmp_path, "name: a\nversion: 0.1.0\nconnectors: [{package: Pz.Connector.LocalFiles}]\n")
    document = json.loads(pz("schema", "export", "--json").out)
    parts = document["connections"]["$defs"]
    assert "connection_localfiles" in parts and "connection_duckdb" not in parts


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_every_file_of_a_template_points_to_a_schema_that_accepts_it(pz: Any, tmp_path: Path, template: str) -> None:
    assert pz("init", "demo", "-t", template).code == 0
    files = sorted((tmp_path / "demo").rglob("*.yml"))
    assert len(files) >= 2
    for file in files:
        head = file.read_text().splitlines()[0]
        mark = "# yaml-language-server: $schema="
        assert head.startswith(mark), file
        schema = json.loads((file.parent / head.removeprefix(mark)).read_text())
        block = read_yaml(file, file.name, Problems())
        assert block is not None
        assert [e.message for e in Draft202012Validator(schema).iter_errors(plain(block))] == []


def test_init_starts_a_project_although_plugins_are_broken(
    pz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> Any:
        raise ImportError("hunter2")

    monkeypatch.setattr(schema_export, "make_schemas", broken)
    said = pz("init", "demo")
    assert said.code == 0 and (tmp_path / "demo" / "project.yml").is_file()
    assert said.err.startswith("note: ") and "pz schema export" in said.err and "hunter2" not in said.err
