from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Puts folders in front of Python's path; modules that they brought are forgotten afterwards."""
    before = set(sys.modules)

    def add(*folders: Path) -> None:
        monkeypatch.setattr(sys, "path", [*map(str, folders), *sys.path])
        importlib.invalidate_caches()

    yield add
    for name in set(sys.modules) - before:
        if name.startswith("fake_"):
            del sys.modules[name]
