"""The lock at the repository's root covers the projects under ``examples/``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Pz

ROOT = Path(__file__).parents[2]
FLIGHTS = ROOT / "examples" / "flights"


def test_the_environment_is_as_the_root_lock_says(pz: Pz) -> None:
    said = pz("deps", "check", "--project", FLIGHTS)
    assert said.code == 0, said.err


def test_the_root_lock_is_up_to_date(pz: Pz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_CONFIG_FILE")
    monkeypatch.setenv("UV_HTTP_RETRIES", "1")
    said = pz("deps", "lock", "--check", "--project", FLIGHTS)
    if said.code == 2 and "PZ0328" in said.err:
        pytest.skip("the package index cannot be reached")
    assert said.code == 0, said.out + said.err


def test_the_root_lock_has_every_example_and_the_plugins_of_this_repository_by_path() -> None:
    document = json.loads((ROOT / "pz.lock.json").read_text())
    examples = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("examples/*/project.yml"))
    assert document["projects"] == examples
    paths = {package["name"]: package.get("path") for package in document["environments"]["main"]}
    assert paths["pz-connector-localfiles"] == "plugins/pz-localfiles"
    assert paths["pz-connector-duckdb"] == "plugins/pz-duckdb"
