"""As a stranger would: a connector for a format that pz does not ship, from nothing to a run in a fresh environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pz_core.cli.plugin_scaffold import scaffold
from pz_core.packages.uv import find_uv

from ..packages.conftest import wheel
from ..plugin_checks.conftest import install

WRITTEN = Path(__file__).with_name("fixed_width")
RULES = (
    "it_loads", "importing_it_is_quick_and_quiet", "its_package_says_which_pz_it_needs", "its_options_are_sound",
    "read_returns_every_value", "schema_is_what_lands", "no_rows_give_one_batch", "batches_are_no_larger_than_asked",
    "abort_leaves_the_target_as_it_was", "another_batch_does_what_the_strategy_says",
    "values_arrive_exactly_or_are_refused", "names_that_look_alike_are_kept_apart", "secrets_are_never_shown",
)  # fmt: skip


class Shell:
    """A fresh environment that pz is installed in, and nothing else of this one."""

    def __init__(self, folder: Path, cwd: Path) -> None:
        subprocess.run([find_uv(), "venv", "-q", "--python", sys.executable, str(folder)], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        # pz and what it needs, lent from here: installing them anew would ask an index.
        (site / "lent.pth").write_text("".join(f"{entry}\n" for entry in sys.path if Path(entry).is_dir()))
        self.site = site
        self.cwd = cwd
        self._python = str(folder / "bin" / "python")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "PYTHON"))}
        self.environ = {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}

    def __call__(self, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run pz, which must end with this exit code."""
        command = [self._python, "-m", "pz_core", *map(str, arguments)]
        done = subprocess.run(command, cwd=self.cwd, env=self.environ, capture_output=True, text=True)
        assert done.returncode == code, done.stdout[-3000:] + done.stderr
        return done


def test_from_nothing_to_a_run(tmp_path: Path) -> None:
    # Written: the scaffold, with a place of one's own.
    (tmp_path / ".git").mkdir()
    package = scaffold("connector", "fixed_width").write(tmp_path)
    for path in WRITTEN.glob("*.py"):
        shutil.copy(path, package / "pz_fixed_width")
    project = package / "pyproject.toml"
    project.write_text(project.read_text().replace(', "pyarrow>=18"', ""))  # it comes with pz-core
    # Built.
    wheels = tmp_path / "wheels"
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(command, cwd=package, check=True, capture_output=True)
    assert [path.name for path in wheels.iterdir()] == ["pz_connector_fixed_width-0.1.0-py3-none-any.whl"]
    # Used: listed, locked, synced, checked, run.
    root = tmp_path / "p"
    (root / "pipelines").mkdir(parents=True)
    (root / "project.yml").write_text(
        "name: p\nversion: 1.0.0\nconnectors:\n  - {package: pz-connector-fixed-width, version: '>=0.1 <1'}\n"
    )
    (root / "connections.yml").write_text("place: {connector: fixed_width, folder: data}\n")
    (root / "data").mkdir()
    (root / "data" / "people.txt").write_text(
        "".join(f"{a:<12}{b:<12}\n" for a, b in (("id", "name"), ("1", "Größe"), ("2", "\\N"), ("30", "O'Hara")))
    )
    (root / "pipelines" / "elders.sql").write_text(
        "INSERT INTO {{ sink('place', 'elders', strategy: 'replace', width: 10) }}\n"
        "SELECT name, id * 2 AS twice FROM "
        "{{ source('place', 'people', width: 12, columns: { id: 'int', name: 'varchar' }) }} WHERE id > 1\n"
    )
    pz = Shell(tmp_path / "env", root)
    assert "PZ0305" in pz("validate", code=2).stderr
    pz("deps", "lock", "--find-links", wheels)
    assert "PZ0321: pz-connector-fixed-width is not installed" in pz("deps", "check", code=1).stderr
    assert "pz-connector-fixed-width 0.1.0" in pz("deps", "sync", "--find-links", wheels).stdout
    assert (pz.site / "pz_fixed_width" / "connector.py").is_file()
    pz("deps", "check")
    pz("validate", "--connect")
    pz("run")
    lines = (root / "data" / "elders.txt").read_text().splitlines()
    assert [[line[:10].rstrip(), line[10:].rstrip()] for line in lines] == [
        ["name", "twice"],
        ["\\N", "4"],
        ["O'Hara", "60"],
    ]
    # Proven: some rules here, all of them in the deep test.
    rules = [part for rule in RULES for part in ("--rule", rule)]
    card = json.loads(pz("plugins", "check", "fixed_width", *rules, "--json").stdout)["plugins"][0]
    assert card["ok"]
    assert card["counts"]["passed"] >= len(RULES)
    # A value that does not fit is told by its place, and never by itself.
    (root / "data" / "people.txt").write_text(f"{'id':<12}{'name':<12}\n{'secret-1':<12}{'x':<12}\n")
    failed = pz("run", code=1).stderr
    assert "error PZ0812: place.people: column 'id' is no int in row 1" in failed
    assert "secret-1" not in failed


@pytest.mark.deep
def test_every_rule_of_the_card_is_kept(tmp_path: Path) -> None:
    package = scaffold("connector", "fixed_width").write(tmp_path)
    for path in WRITTEN.glob("*.py"):
        shutil.copy(path, package / "pz_fixed_width")
    pz = Shell(tmp_path / "env", tmp_path)
    install(package, pz.site)
    card = json.loads(pz("plugins", "check", "fixed_width", "--json").stdout)["plugins"][0]
    assert card["ok"]
    assert card["counts"]["passed"] > 100


@pytest.mark.parametrize("name", ["tampered", "edited", "swapped"])
def test_what_was_locked_is_what_runs(tmp_path: Path, name: str) -> None:
    """A wheel changed after locking, an edited file, a version swapped by hand: each is refused by its code."""
    (tmp_path / ".git").mkdir()
    wheels, root = tmp_path / "wheels", tmp_path / "p"
    (root / "pipelines").mkdir(parents=True)
    (root / "pipelines" / "one.sql").write_text("SELECT 1 AS x\n")
    (root / "connections.yml").write_text("{}\n")
    (root / "project.yml").write_text("name: p\nversion: 1.0.0\nplugins:\n  - {package: pz-check-odd}\n")
    wheel(wheels, "pz-check-odd", "1.0", ["pz-core>=1,<2"], "check.odd = pz_check_odd")
    pz = Shell(tmp_path / "env", root)
    pz("deps", "lock", "--find-links", wheels)
    if name == "tampered":
        wheel(wheels, "pz-check-odd", "1.0", ["pz-core>=1,<2"], "check.odd = pz_check_odd", "VALUE = 666\n")
        pz.environ["UV_CACHE_DIR"] = str(tmp_path / "cache")  # the one in use has the locked bytes
        assert "error PZ0327: pz-check-odd" in pz("deps", "sync", "--find-links", wheels, code=2).stderr
        assert not list(pz.site.glob("pz_check_odd*"))
        return
    pz("deps", "sync", "--find-links", wheels)
    if name == "edited":
        (pz.site / "pz_check_odd.py").write_text("VALUE = 666\n")
        assert "error PZ0326: pz-check-odd 1.0: pz_check_odd.py" in pz("deps", "check", code=1).stderr
    else:
        wheel(wheels, "pz-check-odd", "1.1", ["pz-core>=1,<2"], "check.odd = pz_check_odd")
        command = [find_uv(), "pip", "install", "-q", "--no-deps", "--no-index", "--find-links", str(wheels)]
        python = str(tmp_path / "env" / "bin" / "python")
        subprocess.run([*command, "--python", python, "pz-check-odd==1.1"], check=True)
        assert "error PZ0321: pz-check-odd 1.1 is installed, and pz.lock.json says 1.0" in pz("run", code=2).stderr
        assert not (root / ".pz" / "runs").exists()
        pz("run", "--no-lock-check")
    pz("deps", "sync", "--find-links", wheels)
    pz("deps", "check")
