"""A project in memory, and connectors that declare what a test asks for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from pz_core.compile.model import Graph, Incremental, PipelineNode, SinkNode, SourceNode
from pz_core.contract import Capabilities, NativeCopy, NativeScan, NativeTarget, Option, StrategyTraits, option_set
from pz_core.errors import Where
from pz_core.plugins import Registry
from pz_core.project.model import Connection, EngineConfig, Project

FILES = Capabilities(
    reads=True,
    native_read=True,
    universal_read=True,
    native_write=True,
    universal_write=True,
    load_modes=frozenset({"add", "swap"}),
    schema_policies=frozenset({"fail_on_change"}),
)


class Source:
    def __init__(self, owner):
        self.owner = owner

    def natural_shape(self, spec):
        return self.owner.shape

    def native_scan(self, spec):
        if isinstance(self.owner.scan, Exception):
            raise self.owner.scan
        return self.owner.scan

    def close(self):
        self.owner.closed += 1


class Sink(Source):
    def native_write(self, spec):
        self.owner.specs.append(spec)
        if isinstance(self.owner.copy, Exception):
            raise self.owner.copy
        return self.owner.copy


def make_connector(**over):
    class Fake:
        name = "fake"
        connection_options = option_set(
            Option("root", "string", "folder"), Option("password", "string", "secret", secret=True)
        )
        read_options = option_set(Option("path", "string", "file"), Option("format", "string", "f", choices=("csv",)))
        write_options = option_set(Option("path", "string", "file"))
        capabilities = FILES
        shape = "full"
        scan = NativeScan("select 1", mechanism="read_csv")
        copy = NativeCopy("x", "FORMAT csv", "copy_csv")
        closed = 0
        specs: list = []
        faults: tuple = ()
        read_faults: tuple = ()

        def __init__(self, config):
            self.config = config

        def validate(self):
            return self.faults

        def validate_read(self, spec):
            if isinstance(self.read_faults, Exception):
                raise self.read_faults
            return self.read_faults

        def validate_write(self, spec):
            return ()

        def open_source(self):
            return Source(type(self))

        def open_sink(self):
            return Sink(type(self))

    for name, value in over.items():
        setattr(Fake, name, value)
    return Fake


def make_strategy(*, keys=False, idempotent=True, complete=False, modes=("swap",), options=None):
    return type(
        "Strategy",
        (),
        {"traits": StrategyTraits(keys, idempotent, complete, False, tuple(modes)), "options": options or option_set()},
    )


class FakeRegistry(Registry):
    def __init__(self, things):
        super().__init__(found=[])
        self.things = things

    def names(self, kind):
        return tuple(sorted(n for k, n in self.things if k == kind))

    def load(self, kind, name):
        return self.things[kind, name] if (kind, name) in self.things else super().load(kind, name)


@pytest.fixture
def lab(tmp_path: Path):
    """Builders: ``lab.graph(...)``, ``lab.registry(...)``, and the pieces to vary."""

    strategies = {
        ("strategy", "replace"): make_strategy(complete=True, modes=("swap",)),
        ("strategy", "append"): make_strategy(idempotent=False, modes=("add",)),
        ("strategy", "merge"): make_strategy(keys=True, modes=("program",)),
    }

    def registry(**connectors):
        made = {("connector", n): c for n, c in (connectors or {"fake": make_connector()}).items()}
        return FakeRegistry({**strategies, **made})

    def project(engine=None, **connections):
        given = connections or {"in": Connection("in", "fake"), "out": Connection("out", "fake")}
        return Project(tmp_path, "p", "1", engine=engine or EngineConfig(), connections=given)

    def source(**over):
        base = SourceNode(
            id="s1",
            name="src_in__a",
            connection="in",
            connector="fake",
            entity="a",
            options={},
            columns=None,
            readers=("p",),
            where=Where("pipelines/p.sql", 2),
        )
        return replace(base, **over)

    def sink(**over):
        base = SinkNode(
            id="k1",
            name="out.b",
            connection="out",
            connector="fake",
            entity="b",
            pipeline="p",
            strategy="replace",
            keys=(),
            schema_policy="fail_on_change",
            options={},
            where=Where("pipelines/p.sql", 1),
            depends_on=("p1",),
        )
        return replace(base, **over)

    def graph(*, sources=None, sinks=None, project_=None):
        sources = [source()] if sources is None else sources
        sinks = [sink()] if sinks is None else sinks
        pipeline = PipelineNode("p1", "p", "pipelines/p.sql", "select 1", depends_on=tuple(s.id for s in sources))
        return Graph(project_ or project(), (*sources, pipeline, *sinks))

    return SimpleNamespace(
        connector=make_connector,
        strategy=make_strategy,
        registry=registry,
        strategies=strategies,
        project=project,
        source=source,
        sink=sink,
        graph=graph,
        files=FILES,
        Connection=Connection,
        Incremental=Incremental,
        NativeTarget=NativeTarget,
    )
