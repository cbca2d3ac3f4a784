"""Environments of isolated packages, made by hand: a bare virtual environment and what is put into it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pz_core.packages.uv import find_uv
from pz_core.plugins.isolation.environment import Environment
from pz_core.plugins.registry import Registry

WILD = Path(__file__).with_name("wild_connector.py")
PACKAGE = "pz-connector-wild"


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment without anything."""
    folder = tmp_path_factory.mktemp("bare") / "env"
    subprocess.run([find_uv(), "venv", "-q", "--python", sys.executable, str(folder)], check=True)
    return folder


def distribution(site: Path, name: str, version: str, modules: dict[str, str], points: str = "") -> None:
    """Put a distribution into a folder of packages."""
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)
    inside = site / f"{name.replace('-', '_')}-{version}.dist-info"
    inside.mkdir()
    (inside / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if points:
        (inside / "entry_points.txt").write_text(f"[pz]\n{points}\n")


@pytest.fixture
def environment(bare: Path, tmp_path: Path) -> Callable[..., Environment]:
    """Makes the environment of a package of the project in ``tmp_path``."""
    import shutil

    def make(text: str | None = None, points: str = "connector.wild = wild", library: str = "one") -> Environment:
        made = Environment.of(tmp_path, PACKAGE)
        shutil.copytree(bare, made.folder, symlinks=True)
        distribution(made.site, PACKAGE, "1.0", {"wild": WILD.read_text() if text is None else text}, points)
        distribution(made.site, "wildlib", "1.0", {"wildlib": f"VALUE = {library!r}\n"})
        return made

    return make


@pytest.fixture
def registry(environment: Callable[..., Environment]) -> Registry:
    return Registry([PACKAGE], isolated={PACKAGE: environment()})
