"""A project in memory: its pipelines are rendered without files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pz_core.compile.model import RunConstants
from pz_core.compile.template import Rendered, render
from pz_core.errors import PzErrors
from pz_core.plugins.registry import Registry
from pz_core.project.model import PipelineFile, Project, Sidecar

Render = Callable[..., Rendered]
Refuse = Callable[..., list[tuple[str, int | None, str]]]


def make_project(
    *, variables: Mapping[str, Any] | None = None, env: tuple[str, ...] = (), ephemeral: tuple[str, ...] = ()
) -> Project:
    files = tuple(PipelineFile(n, f"pipelines/{n}.sql", "select 1", Sidecar("ephemeral")) for n in ephemeral)
    return Project(Path("/nowhere"), "test", "0.1.0", vars=dict(variables or {}), env=env, pipelines=files)


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry(None)


@pytest.fixture(scope="session")
def rendered(registry: Registry) -> Render:
    def make(
        text: str,
        variables: Mapping[str, Any] | None = None,
        *,
        env: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
        ephemeral: tuple[str, ...] = (),
        constants: RunConstants | None = None,
    ) -> Rendered:
        project = make_project(variables=variables, env=env, ephemeral=ephemeral)
        pipeline = PipelineFile("mine", "pipelines/mine.sql", text)
        return render(pipeline, project, registry, environ=environ or {}, constants=constants)

    return make


@pytest.fixture(scope="session")
def refused(rendered: Render) -> Refuse:
    """Code, line and text (message and hint) of each fault."""

    def make(text: str, variables: Mapping[str, Any] | None = None, **rest: Any) -> list[tuple[str, int | None, str]]:
        with pytest.raises(PzErrors) as caught:
            rendered(text, variables, **rest)
        for error in caught.value:
            assert error.where.file == "pipelines/mine.sql"
            shown = error.render()
            for leak in ("<class", "<function", "object at 0x", "pz_core", "jinja", "Poison", "NoneType"):
                assert leak not in shown, shown
        return [(e.code, e.where.line, f"{e.message} | {e.hint or ''}") for e in caught.value]

    return make
