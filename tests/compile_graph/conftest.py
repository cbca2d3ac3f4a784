from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pz_core.compile.graph import compile_project
from pz_core.compile.model import Graph, RunConstants
from pz_core.errors import PzErrors
from pz_core.project import load_project

PLACES = "yard: {connector: localfiles, root: in}\nlake: {connector: localfiles, root: out}\n"


class Lab:
    """A project on disk, made from a few texts."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(
        self,
        pipelines: Mapping[str, str],
        *,
        connections: str = PLACES,
        configs: Mapping[str, str] | None = None,
        project: str = "name: depot\nversion: 0.1.0\n",
    ) -> Lab:
        files = {"project.yml": project, "connections.yml": connections}
        files |= {f"pipelines/{name}.sql": text for name, text in pipelines.items()}
        files |= {
            f"pipelines/configs/{name}.yml": f"pipeline: {name}\n{text}" for name, text in (configs or {}).items()
        }
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        return self

    def graph(self, constants: RunConstants | None = None) -> Graph:
        return compile_project(load_project(self.root, environ={}), environ={}, constants=constants)

    def errors(self) -> PzErrors:
        with pytest.raises(PzErrors) as caught:
            self.graph()
        return caught.value

    def codes(self) -> list[str]:
        return sorted(e.code for e in self.errors())

    def names(self) -> list[str]:
        return [n.name for n in self.graph().nodes]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Lab]:
    """Several projects in one test."""
    count = iter(range(100))

    def one(*args: object, **kwargs: object) -> Lab:
        return Lab(tmp_path / f"p{next(count)}").write(*args, **kwargs)  # type: ignore[arg-type]

    return one


EPHEMERAL = "materialization: ephemeral\n"
