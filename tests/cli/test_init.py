from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pz_core.cli.init import project_name
from pz_core.cli.templates import PLACEHOLDER, TEMPLATES


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        ("demo", "demo"),
        ("My Project", "my_project"),
        ("__a--b__c..d__", "a_b_c_d"),
        ("2024_sales", "p_2024_sales"),
        ("größe", "gr_e"),
        ("漢字", "p"),
        ("", "p"),
        ("Ä1", "p_1"),
    ],
)
def test_a_directory_name_is_folded_into_a_project_name(leaf: str, expected: str) -> None:
    assert project_name(leaf) == expected


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_a_template_is_copied_with_the_name_in_place(pz: Any, tmp_path: Path, template: str) -> None:
    said = pz("init", "deep/demo", "--template", template)
    assert said.code == 0 and "scaffolded 'demo'" in said.out and said.err == ""
    root = tmp_path / "deep" / "demo"
    files = [p for p in root.rglob("*") if p.is_file()]
    assert {"project.yml", "connections.yml", "README.md", ".gitignore"} <= {p.name for p in files}
    for file in files:
        content = file.read_bytes()
        assert not content.startswith(b"\xef\xbb\xbf") and b"\r" not in content
        assert PLACEHOLDER.encode() not in content
    assert yaml.safe_load((root / "project.yml").read_text())["name"] == "demo"
    assert all(step in said.out for step in TEMPLATES[template].next_steps)


def test_the_default_template_has_no_pipelines(pz: Any, tmp_path: Path) -> None:
    assert pz("init", "demo").code == 0
    assert not (tmp_path / "demo" / "pipelines").exists()


def test_a_changed_name_is_told_on_stderr(pz: Any, tmp_path: Path) -> None:
    said = pz("init", "My Shop")
    assert said.code == 0
    assert said.err.startswith("warning: ") and "my_shop" in said.err
    assert 'cd "My Shop"' in said.out


def test_a_dot_means_the_current_directory(pz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    (here / ".git").mkdir(parents=True)
    monkeypatch.chdir(here)
    said = pz("init", ".")
    assert said.code == 0 and (here / "project.yml").is_file()
    assert "cd " not in said.out


@pytest.mark.parametrize("occupied", ["file", "directory", "link"])
def test_what_is_occupied_is_refused_and_left_alone(pz: Any, tmp_path: Path, occupied: str) -> None:
    target = tmp_path / "demo"
    if occupied == "file":
        target.write_text("mine")
    elif occupied == "directory":
        target.mkdir()
        (target / ".hidden").write_text("mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    said = pz("init", "demo")
    assert said.code == 2 and said.err.startswith("error PZ0130: ") and "demo" in said.err
    assert not (tmp_path / "nowhere").exists()
    if occupied == "directory":
        assert [p.name for p in target.iterdir()] == [".hidden"]


def test_an_unknown_template_is_answered_with_the_known_ones(pz: Any, tmp_path: Path) -> None:
    said = pz("init", "demo", "-t", "huge")
    assert said.code == 2 and "PZ0131" in said.err and "huge" in said.err
    assert all(name in said.err for name in TEMPLATES)
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("argv", [["init"], ["init", "demo", "--list-templates"]])
def test_a_name_or_the_list_but_not_both_and_not_neither(pz: Any, tmp_path: Path, argv: list[str]) -> None:
    said = pz(*argv)
    assert said.code == 2 and "PZ0132" in said.err
    assert not (tmp_path / "demo").exists()


def test_the_list_marks_the_default_and_says_what_runs(pz: Any) -> None:
    said = pz("init", "--list-templates")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("minimal (default)") and lines[0].endswith("nothing to run yet")
    assert [line.split()[0] for line in lines] == list(TEMPLATES)
