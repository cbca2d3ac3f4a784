"""``pz deps lock``: what the lock holds, what keeps it the same, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Pz, project, wheel


def locked(folder: Path, environment: str = "main") -> dict[str, dict[str, Any]]:
    document = json.loads((folder / "pz.lock.json").read_text())
    return {package["name"]: package for package in document["environments"][environment]}


def test_the_lock_holds_the_whole_graph_with_hashes_markers_and_entry_points(
    pz: Pz, index: Path, tmp_path: Path
) -> None:
    root = project(tmp_path / "p", "pz-connector-a >=1 <2")
    said = pz("deps", "lock", "--project", root, "--find-links", index)
    assert (said.code, said.err) == (0, "")
    text = (root / "pz.lock.json").read_bytes()
    document = json.loads(text)
    assert document["version"] == 1
    assert document["requires_python"] == ">=3.11"
    assert document["projects"] == ["."]
    packages = locked(root)
    assert sorted(packages) == ["pz-connector-a", "pz-core", "shared", "winonly"]
    a = packages["pz-connector-a"]
    assert (a["version"], a["markers"], a["requires"]) == ("1.1", "", ["pz-core", "shared", "winonly"])
    assert a["entry_points"] == {"connector.a": "pz_connector_a"}
    assert [file["name"] for file in a["files"]] == ["pz_connector_a-1.1-py3-none-any.whl"]
    assert all(len(file["sha256"]) == 64 for file in a["files"])
    assert packages["winonly"]["markers"] == "sys_platform == 'win32'"
    assert packages["pz-core"] == {"name": "pz-core", "range": ">=1.0"}
    assert text.endswith(b"}\n")
    assert b"\r" not in text
    assert b"://" not in text
    assert str(tmp_path).encode() not in text
    expected = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert text.decode() == expected


def test_the_same_inputs_give_the_same_bytes_anywhere(pz: Pz, index: Path, tmp_path: Path) -> None:
    wheel(index, "pz-strategy-z", "1.0", ["pz-core>=1,<2"], "strategy.z = pz_strategy_z")
    first = project(tmp_path / "one", "pz-connector-a >=1,<2", "pz-strategy-z")
    assert pz("deps", "lock", "--project", first, "--find-links", index).code == 0
    elsewhere = tmp_path / "deeper" / "other place"
    second = project(elsewhere / "p", "pz-strategy-z", "pz-connector-a >=1 <2")
    (second / "project.yml").write_text("# a comment\n" + (second / "project.yml").read_text())
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in sorted(index.iterdir(), reverse=True):
        (moved / path.name).write_bytes(path.read_bytes())
    environ = {**os.environ, "HOME": str(elsewhere), "LC_ALL": "C", "PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo"}
    subprocess.run(
        [sys.executable, "-m", "pz_core", "deps", "lock", "--find-links", str(moved)],
        cwd=second,
        env=environ,
        check=True,
        capture_output=True,
    )
    assert (second / "pz.lock.json").read_bytes() == (first / "pz.lock.json").read_bytes()


def test_locked_versions_stay_until_they_are_upgraded(pz: Pz, index: Path, tmp_path: Path) -> None:
    newer = (index / "pz_connector_a-1.1-py3-none-any.whl").rename(tmp_path / "pz_connector_a-1.1-py3-none-any.whl")
    root = project(tmp_path / "p", "pz-connector-a")
    pz("deps", "lock", "--project", root, "--find-links", index)
    before = (root / "pz.lock.json").read_bytes()
    newer.rename(index / newer.name)
    assert pz("deps", "lock", "--check", "--project", root, "--find-links", index).code == 0
    assert pz("deps", "lock", "--project", root, "--find-links", index).code == 0
    assert (root / "pz.lock.json").read_bytes() == before
    other = pz("deps", "lock", "--project", root, "--find-links", index, "--upgrade", "shared", "--check")
    assert other.code == 0
    assert "~ pz-connector-a 1.0 -> 1.1" in pz("deps", "outdated", "--project", root, "--find-links", index).out
    seen = pz("deps", "lock", "--project", root, "--find-links", index, "--upgrade", "pz.connector.A", "--check")
    assert (seen.code, "~ pz-connector-a 1.0 -> 1.1" in seen.out) == (1, True)
    assert (root / "pz.lock.json").read_bytes() == before
    assert pz("deps", "lock", "--project", root, "--find-links", index, "--upgrade").code == 0
    assert locked(root)["pz-connector-a"]["version"] == "1.1"


def test_a_changed_project_file_changes_the_lock_and_check_says_so(pz: Pz, index: Path, tmp_path: Path) -> None:
    root = project(tmp_path / "p", "pz-connector-a")
    pz("deps", "lock", "--project", root, "--find-links", index)
    project(root, "pz-connector-a ==1.0")
    said = pz("deps", "lock", "--check", "--project", root, "--find-links", index)
    assert said.code == 1
    assert "~ pz-connector-a 1.1 -> 1.0" in said.out
    assert "- winonly 3.0" in said.out
    assert locked(root)["pz-connector-a"]["version"] == "1.1"


@pytest.mark.parametrize(
    ("packages", "parts"),
    [
        (["pz-connector-a", "pz-connector-b"], ["pz-connector-a needs shared <2", "pz-connector-b needs shared >=2"]),
        (["pz-connector-next"], ["pz-connector-next needs pz-core >=3", "this is pz-core 1"]),
        (["pz-connector-lost"], ["no package nowhere", "pz-connector-lost needs nowhere >=3"]),
        (["pz-connector-a >=2"], ["project.yml needs pz-connector-a >=2", "no version that fits", "project.yml:4"]),
        (["pz-connector-typo"], ["no package pz-connector-typo", "project.yml needs pz-connector-typo"]),
        (["pz-connector-old"], ["pz-core 1", "needs duckdb >=1.5", "pz-connector-old needs duckdb <1"]),
    ],
)
def test_what_cannot_be_resolved_names_both_sides(
    pz: Pz, index: Path, tmp_path: Path, packages: list[str], parts: list[str]
) -> None:
    root = project(tmp_path / "p", *packages)
    said = pz("deps", "lock", "--project", root, "--find-links", index)
    assert said.code == 2
    assert said.err.startswith("error PZ0320: ")
    assert " - hint: " in said.err
    assert len(said.err.splitlines()) == 1
    for part in parts:
        assert part in said.err
    assert not (root / "pz.lock.json").exists()


def test_two_projects_of_one_lock_that_disagree_are_both_named(pz: Pz, index: Path, tmp_path: Path) -> None:
    one, two = project(tmp_path / "one", "pz-connector-a ==1.0"), project(tmp_path / "two", "pz-connector-a ==1.1")
    assert pz("deps", "lock", "--project", one, "--at", tmp_path, "--find-links", index).code == 0
    said = pz("deps", "lock", "--project", two, "--at", tmp_path, "--find-links", index)
    assert said.code == 2
    assert "one/project.yml needs pz-connector-a ==1.0, two/project.yml needs pz-connector-a ==1.1" in said.err


def test_projects_share_a_lock_and_each_lock_run_keeps_what_the_others_list(
    pz: Pz, index: Path, tmp_path: Path
) -> None:
    wheel(index, "pz-connector-z", "1.0", ["pz-core>=1"])
    one, two = project(tmp_path / "one", "pz-connector-a"), project(tmp_path / "two", "pz-connector-z")
    pz("deps", "lock", "--project", one, "--at", tmp_path, "--find-links", index)
    pz("deps", "lock", "--project", two, "--at", tmp_path, "--find-links", index)
    both = (tmp_path / "pz.lock.json").read_bytes()
    assert json.loads(both)["projects"] == ["one", "two"]
    assert pz("deps", "lock", "--project", one, "--find-links", index).code == 0
    assert (tmp_path / "pz.lock.json").read_bytes() == both
    assert not (one / "pz.lock.json").exists()
    (two / "project.yml").unlink()
    said = pz("deps", "lock", "--project", one, "--find-links", index)
    assert "two has no project.yml any more" in said.err
    assert "pz-connector-z" not in locked(tmp_path)


def test_a_local_package_is_locked_by_path_without_hash_and_remembered(pz: Pz, index: Path, tmp_path: Path) -> None:
    root = project(tmp_path / "p", "pz-connector-mine >=2")
    mine = tmp_path / "plugins" / "mine"
    mine.mkdir(parents=True)
    text = (
        '[project]\nname = "Pz.Connector.Mine"\nversion = "2.1"\ndependencies = ["shared<2", "pz-core>=1,<2"]\n'
        '[project.entry-points.pz]\n"connector.mine" = "mine"\n'
    )
    (mine / "pyproject.toml").write_text(text)
    assert pz("deps", "lock", "--project", root, "--local", mine, "--find-links", index).code == 0
    assert not (root / "pz.lock.json").exists()
    packages = locked(tmp_path)
    assert packages["pz-connector-mine"] == {
        "name": "pz-connector-mine",
        "version": "2.1",
        "path": "plugins/mine",
        "markers": "",
        "requires": ["pz-core", "shared"],
        "entry_points": {"connector.mine": "mine"},
    }
    assert packages["shared"]["version"] == "1.0"
    assert pz("deps", "lock", "--check", "--project", root, "--find-links", index).code == 0
    (mine / "pyproject.toml").write_text(text.replace("2.1", "1.9"))
    said = pz("deps", "lock", "--project", root, "--find-links", index)
    assert said.code == 2
    assert "p/project.yml needs pz-connector-mine >=2, and plugins/mine holds pz-connector-mine 1.9" in said.err


def test_an_isolated_package_has_an_environment_of_its_own(pz: Pz, index: Path, tmp_path: Path) -> None:
    root = project(tmp_path / "p", "pz-connector-a")
    with (root / "project.yml").open("a") as file:
        file.write("  - {package: pz-connector-b, isolation: process}\n")
    assert pz("deps", "lock", "--project", root, "--find-links", index).code == 0
    assert locked(root)["shared"]["version"] == "1.0"
    assert locked(root, "pz-connector-b")["shared"]["version"] == "2.0"


def test_a_version_that_was_published_again_is_refused(pz: Pz, index: Path, tmp_path: Path) -> None:
    root = project(tmp_path / "p", "pz-connector-a")
    pz("deps", "lock", "--project", root, "--find-links", index)
    wheel(index, "shared", "1.0", code="VALUE = 2\n")
    said = pz("deps", "lock", "--project", root, "--find-links", index)
    assert said.code == 2
    assert "error PZ0327: shared 1.0 was published again: shared-1.0-py3-none-any.whl" in said.err


def test_an_index_that_does_not_answer_is_named_without_its_credentials(
    pz: Pz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:hidden-word@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    said = pz("deps", "lock", "--project", project(tmp_path / "p", "pz-connector-none-such"))
    assert said.code == 2
    assert said.err.startswith("error PZ0328: the package index at 127.0.0.1:9 does not answer")
    assert "hidden-word" not in said.err


def test_a_project_without_packages_has_nothing_to_lock(pz: Pz, tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    said = pz("deps", "lock", "--project", root)
    assert (said.code, "nothing to lock" in said.err) == (0, True)
    assert not (root / "pz.lock.json").exists()


def test_a_lock_that_cannot_be_written_is_told_and_the_old_one_stays(
    pz: Pz, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "p", "pz-connector-a ==1.0")
    pz("deps", "lock", "--project", root, "--find-links", index)
    before = (root / "pz.lock.json").read_bytes()
    project(root, "pz-connector-a ==1.1")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("pz_core.packages.lockfile.write_whole", full)
    said = pz("deps", "lock", "--project", root, "--find-links", index)
    assert said.code == 2
    assert said.err.startswith("error PZ0329: pz.lock.json cannot be written")
    assert (root / "pz.lock.json").read_bytes() == before


def test_without_uv_the_way_out_is_told(pz: Pz, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    said = pz("deps", "lock", "--project", project(tmp_path / "p", "pz-connector-a"), "--find-links", index)
    assert said.code == 2
    assert said.err.startswith("error PZ0320: uv, which resolves and installs packages, is not installed")
    assert "python -m pip install uv" in said.err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[project",
        '[project]\nname = "x"\ndynamic = ["version"]\n',
        '[project]\nname = "x"\nversion = "one"\n',
        '[project]\nname = "x"\nversion = "1"\ndependencies = "shared"\n',
    ],
)
def test_a_local_folder_that_does_not_describe_itself_is_refused(pz: Pz, tmp_path: Path, text: str) -> None:
    root = project(tmp_path / "p", "x")
    (root / "x").mkdir()
    (root / "x" / "pyproject.toml").write_text(text)
    said = pz("deps", "lock", "--project", root, "--local", root / "x")
    assert said.code == 2
    assert said.err.startswith("error PZ0320: x")
    assert " - hint: " in said.err


def test_a_local_package_belongs_to_the_environment_that_asks_for_it(pz: Pz, index: Path, tmp_path: Path) -> None:
    root = project(tmp_path / "p", "pz-connector-a")
    with (root / "project.yml").open("a") as file:
        file.write("  - {package: x, isolation: process}\n")
    for name, needs in (("x", '["y"]'), ("y", "[]"), ("z", "[]")):
        (root / name).mkdir()
        text = f'[project]\nname = "{name}"\nversion = "1"\ndependencies = {needs}\n'
        (root / name / "pyproject.toml").write_text(text)
    options = [part for name in "xyz" for part in ("--local", root / name)]
    said = pz("deps", "lock", "--project", root, *options, "--find-links", index)
    assert said.code == 0, said.err
    assert {"x", "y", "z"} & set(locked(root)) == {"y", "z"}
    assert {"x", "y", "z"} & set(locked(root, "x")) == {"x", "y"}
    assert pz("deps", "lock", "--check", "--project", root, "--find-links", index).code == 0


def test_a_name_may_stand_twice_under_markers_that_exclude_each_other(pz: Pz, index: Path, tmp_path: Path) -> None:
    needs = ["shared<2; python_version < '3.13'", "shared>=2; python_version >= '3.13'", "pz-core>=1"]
    wheel(index, "pz-connector-m", "1.0", needs)
    root = project(tmp_path / "p", "pz-connector-m")
    assert pz("deps", "lock", "--project", root, "--find-links", index).code == 0
    packages = json.loads((root / "pz.lock.json").read_text())["environments"]["main"]
    both = [(p["version"], p["markers"]) for p in packages if p["name"] == "shared"]
    assert both == [("1.0", "python_full_version < '3.13'"), ("2.0", "python_full_version >= '3.13'")]
    wheel(index, "shared", "1.5")
    wheel(index, "shared", "2.5")
    again = pz("deps", "lock", "--check", "--project", root, "--find-links", index)
    assert (again.code, again.err) == (0, "")
    newer = pz("deps", "lock", "--check", "--upgrade", "--project", root, "--find-links", index)
    assert "~ shared 1.0 and 2.0 -> 1.5 and 2.5" in newer.out
