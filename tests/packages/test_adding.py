"""``pz deps add``: resolves first, then writes one line into ``project.yml``, and the lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Pz, project, wheel
from .test_locking import locked


def test_a_connector_goes_under_connectors_and_other_plugins_under_plugins(pz: Pz, index: Path, tmp_path: Path) -> None:
    wheel(index, "pz-strategy-z", "0.4.1", ["pz-core>=1"], "strategy.z = pz_strategy_z")
    root = project(tmp_path / "p")
    before = "# mine\n" + (root / "project.yml").read_text() + "vars:\n  x: 1   # stays\n"
    (root / "project.yml").write_text(before)
    assert pz("deps", "add", "pz-connector-a", "--project", root, "--find-links", index).code == 0
    assert pz("deps", "add", "pz-strategy-z", "--project", root, "--find-links", index).code == 0
    assert (root / "project.yml").read_text() == before + (
        '\nconnectors:\n  - {package: pz-connector-a, version: ">=1.1 <2"}\n'
        '\nplugins:\n  - {package: pz-strategy-z, version: ">=0.4.1 <0.5"}\n'
    )
    assert {"pz-connector-a", "pz-strategy-z"} <= set(locked(root))
    assert pz("deps", "lock", "--check", "--project", root, "--find-links", index).code == 0


def test_an_item_is_added_at_the_end_of_its_list(pz: Pz, index: Path, tmp_path: Path) -> None:
    wheel(index, "pz-connector-z", "2.0", [], "connector.z = pz_connector_z")
    root = tmp_path / "p"
    root.mkdir()
    lines = [
        "name: p",
        "version: 1.0.0",
        "connectors:   # places",
        "- package: pz-connector-a",
        "  version: 1.0.post1",
        "",
        "# what varies",
        "vars:",
        "  a: b",
        "",
    ]
    (root / "project.yml").write_bytes("\r\n".join(lines).replace("1.0.post1", '">=1"').encode())
    said = pz("deps", "add", "pz-connector-z", "--version", "2.0", "--project", root, "--find-links", index)
    assert said.code == 0, said.err
    text = (root / "project.yml").read_bytes().decode()
    assert '  version: ">=1"\r\n- {package: pz-connector-z, version: "2.0"}\r\n\r\n# what varies\r\n' in text
    assert locked(root)["pz-connector-z"]["version"] == "2.0"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["pz-connector-b"], "PZ0320"),
        (["pz-connector-A"], "PZ0139"),
        (["nothing-of-that-name"], "PZ0320"),
        (["pz-connector-next", "--version", "maybe"], "PZ0101"),
        (["pz-connector-b --no-deps"], "PZ0101"),
    ],
)
def test_what_cannot_be_added_changes_nothing(
    pz: Pz, index: Path, tmp_path: Path, arguments: list[str], code: str
) -> None:
    root = project(tmp_path / "p", "pz-connector-a")
    before = (root / "project.yml").read_bytes()
    said = pz("deps", "add", *arguments, "--project", root, "--find-links", index)
    assert said.code == 2
    assert said.err.startswith(f"error {code}: ")
    assert (root / "project.yml").read_bytes() == before
    assert not (root / "pz.lock.json").exists()


def test_a_list_in_flow_style_is_refused_with_the_line_to_add(pz: Pz, index: Path, tmp_path: Path) -> None:
    wheel(index, "pz-connector-z", "2.0", [], "connector.z = pz_connector_z")
    root = project(tmp_path / "p")
    with (root / "project.yml").open("a") as file:
        file.write("connectors: [{package: pz-connector-a}]\n")
    said = pz("deps", "add", "pz-connector-z", "--project", root, "--find-links", index)
    assert said.code == 2
    assert '- {package: pz-connector-z, version: ">=2.0 <3"}' in said.err
    assert not (root / "pz.lock.json").exists()
