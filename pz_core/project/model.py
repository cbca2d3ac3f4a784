"""A project as files say it: frozen, typed, with positions. Nothing here knows templates or nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from msgspec import Struct, field

from pz_core.contract.check import CheckDefinition
from pz_core.errors import Where
from pz_core.values import Value
from pz_core.values.discreet import Discreet


class PackageRequirement(Struct, frozen=True):
    """An entry of ``connectors:`` or ``plugins:``.

    Args:
        package: the name as written.
        name: the name normalised after PEP 503.
        version: the version as written, or ``None``.
        specifier: the same as a PEP 440 specifier text (``2.1.4`` becomes ``==2.1.4``); empty for any version.
        isolation: ``process`` for a connector that runs in a process of its own.
    """

    package: str
    name: str
    version: str | None
    specifier: str
    where: Where
    isolation: str | None = None


class BreakerSettings(Struct, frozen=True):
    """``engine.breaker``: trips after so many transient failures, for so long."""

    failure_threshold: int
    cool_down_ms: int


class EngineConfig(Struct, frozen=True):
    """``engine:`` of ``project.yml``, with its defaults."""

    name: str = "duckdb"
    threads: int = 4
    batch_bytes: int = 33_554_432
    force_universal: bool = False
    check_samples: bool = True
    memory_limit: str | None = None
    duckdb_threads: int | None = None
    temp_directory: str | None = None
    breaker: BreakerSettings | None = None
    node_timeout_ms: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class StateConfig:
    """``state:`` of ``project.yml``, with what ``PZ_STATE_*`` adds.

    Args:
        settings: the keys that the backend takes, ``artifacts`` and ``events`` apart.
        declared: whether the project file has a ``state:`` block.
        from_env: the keys that came from the environment.
        connection: the connection that ``state.connection`` names.
        project: name of the project.
    """

    backend: str = "local"
    settings: Mapping[str, Value] = dataclasses.field(default_factory=dict, repr=False)
    artifacts: bool = False
    events: bool = False
    declared: bool = False
    from_env: frozenset[str] = frozenset()
    connection: Connection | None = dataclasses.field(default=None, repr=False)
    project: str = dataclasses.field(default="", compare=False)


class RetryConfig(Struct, frozen=True):
    """A ``retry:`` block as written; absent fields come from the level above it."""

    max_attempts: int | None = None
    base_delay_ms: int | None = None
    max_delay_ms: int | None = None


class RateLimit(Struct, frozen=True):
    """``rate_limit:`` of a connection."""

    requests_per_minute: int
    burst: int | None = None


class SyncConfig(Struct, frozen=True):
    """``sync:`` of a read; values are text as written."""

    mode: str
    cursor: str | None = None
    max_window: str | None = None
    initial: str | None = None
    until: str | None = None
    slot: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ReadDeclaration:
    """One side of an entity: how it is read. The same from YAML and from a ``source()`` call.

    Args:
        options: the connector's read options.
        columns: the contract, name -> type word, ``None`` without one (an empty one counts as none).
        lines: line of each key, where it was written in YAML.
    """

    options: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    columns: Mapping[str, str] | None = None
    sync: SyncConfig | None = None
    retry: RetryConfig | None = None
    where: Where = Where()
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict, repr=False, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class WriteDeclaration:
    """One side of an entity: how it is written. The same from YAML and from a ``sink()`` call.

    Args:
        options: every option that is none of pz's own: the connector's and the strategy's.
        strategy, duplicates, on_delete, schema_policy: as written, ``None`` where not written.
        keys: as written; empty where not written.
        lines: line of each key, where it was written in YAML.
    """

    options: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    strategy: str | None = None
    keys: tuple[str, ...] = ()
    duplicates: str | None = None
    on_delete: str | None = None
    schema_policy: str | None = None
    retry: RetryConfig | None = None
    where: Where = Where()
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict, repr=False, compare=False)


class Entity(Struct, frozen=True):
    """An entity declared in ``connections.yml``; a bare key declares neither side."""

    name: str
    read: ReadDeclaration | None = None
    write: WriteDeclaration | None = None
    where: Where = Where()


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """A place with credentials. ``config`` holds interpolated values: it is never printed.

    Args:
        lines: line of each key in ``connections.yml``.
        variables: names of the environment variables that ``config`` was made with.
    """

    name: str
    connector: str
    config: Mapping[str, Value] = dataclasses.field(default_factory=dict, repr=False)
    entities: Mapping[str, Entity] = dataclasses.field(default_factory=dict)
    max_concurrency: int | None = None
    rate_limit: RateLimit | None = None
    retry: RetryConfig | None = None
    where: Where = Where()
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    variables: frozenset[str] = frozenset()


class CheckEntry(Struct, frozen=True):
    """A check of a sidecar; ``sample_values`` overrides ``engine.check_samples`` where it is written."""

    definition: CheckDefinition
    sample_values: bool | None = None
    where: Where = Where()


class Sidecar(Struct, frozen=True):
    """``pipelines/configs/*.yml`` of a pipeline."""

    materialization: str = "table"
    tags: tuple[str, ...] = ()
    checks: tuple[CheckEntry, ...] = ()
    where: Where = Where()


class PipelineFile(Struct, frozen=True):
    """A ``.sql`` file: its stem is the pipeline's name; the text has LF line ends."""

    name: str
    file: str
    text: str
    sidecar: Sidecar = Sidecar()


class Project(Discreet, frozen=True):
    """A loaded project. ``root`` is absolute; files inside are named relative to it, with forward slashes.

    Args:
        env: names that ``env()`` may read.
        vars: project variables with ``--vars`` applied.
        outside_vars: names of variables whose value came from the environment or from ``--vars``, not from a file.
        retention: ``keep_last``, ``None`` for ``off``.
    """

    kept: ClassVar[frozenset[str]] = frozenset({"vars"})

    root: Path
    name: str
    version: str
    connectors: tuple[PackageRequirement, ...] = ()
    plugins: tuple[PackageRequirement, ...] = ()
    env: tuple[str, ...] = ()
    vars: Mapping[str, Value] = field(default_factory=dict)
    outside_vars: frozenset[str] = frozenset()
    engine: EngineConfig = EngineConfig()
    retention: int | None = 10
    state: StateConfig = StateConfig()
    on_source_drift: str = "ignore"
    connections: Mapping[str, Connection] = field(default_factory=dict)
    pipelines: tuple[PipelineFile, ...] = ()

    @property
    def dot_pz(self) -> Path:
        """The generated folder ``.pz``."""
        return self.root / ".pz"
