"""Packages installed into a folder of their own, which tests put on the path."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pz_core.packages.uv import find_uv

HOSTILE = Path(__file__).parents[1] / "hostile-plugin"


def install(package: Path, site: Path) -> None:
    """Install a package as it would be from an index, without what it needs and without a network."""
    command = [find_uv(), "pip", "install", "-q", "--no-deps", "--offline", "--no-build-isolation"]
    subprocess.run([*command, "--python", sys.executable, "--target", str(site), str(package)], check=True)


@pytest.fixture(scope="session")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the hostile package is installed in."""
    site = tmp_path_factory.mktemp("hostile")
    install(HOSTILE, site)
    return site


@pytest.fixture
def hostile(hostile_site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The hostile package, installed."""
    monkeypatch.syspath_prepend(str(hostile_site))
    importlib.invalidate_caches()
    yield hostile_site
    for name in [name for name in sys.modules if name.startswith("pz_hostile")]:
        del sys.modules[name]
