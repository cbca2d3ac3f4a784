"""The lock at the repository's root covers the projects under ``examples/``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from pz_core.plugins.offers import normalised

from .conftest import Pz

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/project.yml"))
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)


@each_example
def test_the_environment_is_as_the_root_lock_says(pz: Pz, example: Path) -> None:
    said = pz("deps", "check", "--project", example)
    assert said.code == 0, said.err


@each_example
def test_the_root_lock_is_up_to_date(pz: Pz, monkeypatch: pytest.MonkeyPatch, example: Path) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_CONFIG_FILE")
    monkeypatch.setenv("UV_HTTP_RETRIES", "1")
    said = pz("deps", "lock", "--check", "--project", example)
    if said.code == 2 and "PZ0328" in said.err:
        pytest.skip("the package index cannot be reached")
    assert said.code == 0, said.out + said.err


def test_the_root_lock_has_every_example_and_the_plugins_of_this_repository_by_path() -> None:
    """A plugin or an example that is new here asks for ``make lock``."""
    document = json.loads((ROOT / "pz.lock.json").read_text())
    examples = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("examples/*/project.yml"))
    assert document["projects"] == examples
    paths = {package["name"]: package.get("path") for package in document["environments"]["main"]}
    own = {
        normalised(tomllib.loads(path.read_text())["project"]["name"]): path.parent.relative_to(ROOT).as_posix()
        for path in ROOT.glob("plugins/*/pyproject.toml")
    }
    assert {name: paths.get(name) for name in own} == own


@pytest.mark.parametrize("path", sorted(ROOT.glob("plugins/*/pyproject.toml")), ids=lambda path: path.parent.name)
def test_a_package_that_needs_an_extension_of_duckdb_asks_for_the_duckdb_that_it_loads_into(path):
    """An extension loads into the one version that it was built for; pip would take the newest of each."""
    asked = tomllib.loads(path.read_text())["project"]["dependencies"]
    extensions = [item for item in asked if item.startswith("duckdb-extension-")]
    versions = {item.partition("==")[2] for item in asked if item.startswith("duckdb")}
    assert not extensions or (len(versions) == 1 and "" not in versions), asked
