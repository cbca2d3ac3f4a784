"""``pz plugins new``: each kind passes its own tests and ``pz plugins check`` as it is generated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pz_core.cli.main import invoke
from pz_core.cli.plugin_scaffold import KINDS, scaffold

from .conftest import install


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A package of each kind."""
    folder = tmp_path_factory.mktemp("made")
    return {kind: scaffold(kind, f"some_{kind}").write(folder) for kind in KINDS}


@pytest.fixture(scope="module")
def site(made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all of them are installed in."""
    folder = tmp_path_factory.mktemp("site")
    for package in made.values():
        install(package, folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_generated_package_passes_its_own_tests(made: dict[str, Path], site: Path, kind: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(made[kind])]
    done = subprocess.run(command, cwd=made[kind], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert int(done.stdout.split(" passed")[0].split()[-1].strip("=")) >= 5


def test_generated_code_is_clean(made: dict[str, Path]) -> None:
    rules = ("--isolated", "--line-length", "120", "--target-version", "py311")
    for arguments in (("check", "--select", "E,F,W,I,UP,B,SIM,PTH,RUF"), ("format", "--check")):
        for folder in made.values():
            command = [sys.executable, "-m", "ruff", *arguments[:1], *rules, *arguments[1:], "."]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["check", "strategy", "state"])
def test_the_score_card_of_a_generated_package_is_clean(
    site: Path, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(site))
    assert invoke(["plugins", "check", f"some_{kind}"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[0] == f"{kind} 'some_{kind}' of pz-{kind}-some-{kind} 0.1.0"
    assert "0 broken" in out
    assert "FAIL" not in out


def test_the_card_as_json_is_one_document(
    site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(site))
    assert invoke(["plugins", "check", "pz-check-some-check", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (card,) = document["plugins"]
    assert document["ok"] is card["ok"] is True
    assert (card["kind"], card["name"], card["package"]) == ("check", "some_check", "pz-check-some-check")
    assert card["counts"]["passed"] == sum(result["outcome"] == "passed" for result in card["results"])
    assert {"rule", "title", "area", "outcome", "reason"} <= set(card["results"][0])


def test_new_says_what_to_do_next_and_names_things(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke(["plugins", "new", "fixed_width", "--kind", "connector"]) == 0
    assert "pz plugins check fixed_width" in capsys.readouterr().out
    project = tomllib.loads((tmp_path / "pz-connector-fixed-width" / "pyproject.toml").read_text())["project"]
    assert project["name"] == "pz-connector-fixed-width"
    assert project["entry-points"]["pz"] == {"connector.fixed_width": "pz_fixed_width"}
    assert "class FixedWidth:" in (tmp_path / "pz-connector-fixed-width/pz_fixed_width/connector.py").read_text()
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and "__plugin__" in p.read_text()]
    assert invoke(["plugins", "new", "fixed_width", "--kind", "connector"]) == 2
    assert capsys.readouterr().err.startswith("error PZ0130: ")


@pytest.mark.parametrize(
    ("name", "hint"), [("Fixed-Width", "write fixed_width"), ("9", "lower-case word"), ("unique", "pz itself ships")]
)
def test_a_name_that_no_plugin_can_have_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, hint: str
) -> None:
    assert invoke(["plugins", "new", name, "--kind", "check", "--into", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error PZ0708: ")
    assert hint in err
    assert list(tmp_path.iterdir()) == []


def test_a_broken_rule_is_told_by_a_code(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["plugins", "check", "connector.hostile_wrong_api"]) == 1
    out, err = capsys.readouterr()
    assert "FAIL registration: it_loads" in out
    assert err.startswith("error PZ0706: connector 'hostile_wrong_api' of pz-hostile 6.6.6 breaks it_loads")
    assert invoke(["plugins", "check", "nothing_of_that_name"]) == 2
    assert capsys.readouterr().err.startswith("error PZ0707: ")


def test_a_connector_without_a_suite_is_told_how_to_offer_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["plugins", "check", "engine.duckdb"]) == 0
    assert "no rules for a plugin of the kind engine beyond these" in capsys.readouterr().out
