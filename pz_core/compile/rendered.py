"""What rendering makes of a pipeline: its text and its calls. A warm compile needs this and not the renderer."""

from __future__ import annotations

from msgspec import Struct

from pz_core.errors import Notice, Where
from pz_core.project.model import PipelineFile, Project, ReadDeclaration, WriteDeclaration
from pz_core.values import quote_literal


class SourceCall(Struct, frozen=True):
    """A ``source()`` call; ``declaration`` is ``None`` where it has no options."""

    connection: str
    entity: str
    declaration: ReadDeclaration | None
    where: Where


class RefCall(Struct, frozen=True):
    """A ``ref()`` call."""

    name: str
    where: Where


class SinkCall(Struct, frozen=True):
    """A ``sink()`` call; ``marker`` is the text that it rendered."""

    connection: str
    entity: str
    declaration: WriteDeclaration | None
    where: Where
    marker: str


class WatermarkCall(Struct, frozen=True):
    """A ``watermark()`` call; ``sentinel`` is the quoted text that it rendered."""

    connection: str
    entity: str
    where: Where
    sentinel: str


class Rendered(Struct, frozen=True):
    """A pipeline as rendered, with its calls in the order in which they were made.

    Args:
        uses_run_constants: whether ``run_id`` or ``run_started_at`` was read.
        variables: names given to ``var()``, whether they exist or not, sorted.
        reads_environment: whether ``env()`` was called.
    """

    pipeline: PipelineFile
    text: str
    sources: tuple[SourceCall, ...] = ()
    refs: tuple[RefCall, ...] = ()
    sinks: tuple[SinkCall, ...] = ()
    watermarks: tuple[WatermarkCall, ...] = ()
    uses_run_constants: bool = False
    notices: tuple[Notice, ...] = ()
    variables: tuple[str, ...] = ()
    reads_environment: bool = False


def sentinel(connection: str, entity: str) -> str:
    """The quoted text that stands for a dataset's watermark until it is known."""
    return quote_literal(f"__pz_watermark__{connection}__{entity}__")


def sink_marker(connection: str, entity: str) -> str:
    """The text that stands for an output until the graph takes it off."""
    return f"__pz_sink__{connection}__{entity}__"


def ephemeral_names(project: Project) -> frozenset[str]:
    """Names of the pipelines that are inlined where they are read."""
    return frozenset(p.name for p in project.pipelines if p.sidecar.materialization == "ephemeral")
