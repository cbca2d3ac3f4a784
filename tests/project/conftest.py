from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pz_core.errors import PzErrors
from pz_core.project import Loaded, load_project

BASE = "name: depot\nversion: 0.1.0\n"


class Folder:
    """A scratch project that loads, or says why it does not."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write({"project.yml": BASE})

    def write(self, files: Mapping[str, str | bytes]) -> Folder:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self

    def load(self, vars_json: str | None = None, **environ: str) -> Loaded:
        return load_project(self.root, environ=environ, vars_json=vars_json)

    def refusal(self, vars_json: str | None = None, **environ: str) -> PzErrors:
        with pytest.raises(PzErrors) as caught:
            self.load(vars_json, **environ)
        return caught.value

    def faults(self, **environ: str) -> list[str]:
        """Code and place of each fault, in the order they are told."""
        return [f"{e.code} {e.where}" for e in self.refusal(**environ)]

    def lines(self, **environ: str) -> str:
        """All that is told, one line a fault."""
        refusal = self.refusal(**environ)
        return "\n".join([e.render() for e in refusal] + [n.render() for n in refusal.notices])


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def connections(folder: Folder) -> Callable[[str], Folder]:
    def write(text: str) -> Folder:
        return folder.write({"connections.yml": text})

    return write
