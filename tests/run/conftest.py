"""A project in memory with a fake engine whose nodes do what a test tells them to."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event as Flag
from threading import Lock
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from pz_core.compile.model import CheckNode, Graph, PipelineNode, SinkNode, SourceNode
from pz_core.contract import CheckDefinition, ReadSpec, StrategyTraits, WriteSpec, option_set
from pz_core.contract.engine import (
    CheckOutcome,
    CheckTask,
    DrainResult,
    DrainTask,
    LandResult,
    LandTask,
    MaterialiseResult,
    MaterialiseTask,
    NodeRef,
)
from pz_core.plan.model import MemoryBudget, NodePlan, Plan, RetryPolicy
from pz_core.plugins import Registry
from pz_core.project.model import CheckEntry, Connection, EngineConfig, Project
from pz_core.run.execute import execute

QUICK = RetryPolicy(3, 1, 1)


class FakeEngine:
    """Each call runs the action that a test gave the node, and records that it did."""

    def __init__(self, settings, host, lab):
        self.settings, self.host, self.lab = settings, host, lab
        lab.engines.append(self)
        Path(settings.staging_path).write_text("staging")
        self.closed = False

    def _do(self, task, control, default):
        with self.lab.lock:
            self.lab.calls.append((task.node.name, control.attempt))
            self.lab.now.add(task.node.name)
            self.lab.peak = max(self.lab.peak, len(self.lab.now))
        try:
            action = self.lab.actions.get(task.node.name)
            made = action(task, control) if action else None
            return default if made is None else made
        finally:
            with self.lab.lock:
                self.lab.now.discard(task.node.name)

    def land(self, task, control):
        return self._do(task, control, LandResult(2, 2))

    def materialise(self, task, control):
        return self._do(task, control, MaterialiseResult(2))

    def check(self, task, control):
        return self._do(task, control, CheckOutcome(0))

    def drain(self, task, control):
        return self._do(task, control, DrainResult(2, 2))

    def close(self):
        self.closed = True


class MovingEngine(FakeEngine):
    """One that moves rows straight through, as the test says."""

    def move(self, land, make, drain, control):
        with self.lab.lock:
            self.lab.calls.append(("move", control.attempt))
        return self.lab.moves(land, make, drain, control)


class OneEngine(Registry):
    def __init__(self, lab):
        super().__init__(found=[])
        self.lab = lab

    def load(self, kind, name):
        if kind == "engine":
            made = FakeEngine if self.lab.moves is None else MovingEngine
            return lambda settings, host: made(settings, host, self.lab)
        return super().load(kind, name)


class Recorder:
    name = "recorder"

    def __init__(self):
        self.events = []
        self.closed = False

    def on_event(self, event):
        self.events.append(event)

    def close(self):
        self.closed = True

    def of(self, name):
        return [e for e in self.events if e.event == name]


@pytest.fixture
def lab(tmp_path: Path):
    """``lab.source/pipeline/check/sink`` add nodes, ``lab.run()`` executes them."""
    made = SimpleNamespace(
        root=tmp_path,
        nodes=[],
        actions={},
        calls=[],
        now=set(),
        peak=0,
        lock=Lock(),
        engines=[],
        recorder=Recorder(),
        policies={},
        passes={},
        imports={},
        moves=None,
        refusals={},
        traits=StrategyTraits(False, False, False, False, ("add",)),
        options=option_set(),
        blocked=Flag(),
        connections={"c": Connection("c", "fake")},
        retention=10,
        run_number=0,
    )

    def connection(name):
        made.connections.setdefault(name, Connection(name, "fake"))
        return name

    def source(name, connection_="c", **over):
        made.nodes.append(
            SourceNode(
                id=f"id-{name}",
                name=name,
                connection=connection(connection_),
                connector="fake",
                entity=name,
                options={},
                columns=None,
                readers=(),
                **over,
            )
        )

    def pipeline(name, *parents):
        made.nodes.append(
            PipelineNode(
                f"id-{name}", name, f"pipelines/{name}.sql", "select 1", depends_on=tuple(f"id-{p}" for p in parents)
            )
        )

    def check(name, parent, kind="not_null"):
        entry = CheckEntry(CheckDefinition(kind))
        made.nodes.append(CheckNode(f"id-{name}", name, parent, entry, True, depends_on=(f"id-{parent}",)))

    def sink(name, parent, connection_="c", keys=()):
        made.nodes.append(
            SinkNode(
                f"id-{name}",
                name,
                connection(connection_),
                "fake",
                name,
                parent,
                "append",
                tuple(keys),
                "fail_on_change",
                {},
                depends_on=(f"id-{parent}",),
            )
        )

    def node_plan(node):
        ref = NodeRef(node.id, node.name)
        if isinstance(node, SourceNode):
            task = LandTask(ref, node.name, node.connection, "fake", "native", ReadSpec(node.entity))
        elif isinstance(node, PipelineNode):
            task = MaterialiseTask(ref, node.name, node.sql)
        elif isinstance(node, CheckNode):
            task = CheckTask(ref, node.pipeline, node.entry.definition)
        else:
            write = WriteSpec(node.entity, keys=node.keys, node_id=node.id)
            task = DrainTask(ref, node.pipeline, node.connection, "fake", "native", write)
        retry = made.policies.get(node.name, QUICK) if hasattr(node, "connection") else None
        return NodePlan(
            node.id,
            node.kind.value,
            node.name,
            "x",
            "r",
            task,
            retry=retry,
            refusal=made.refusals.get(node.name),
            passes_into=made.passes.get(node.name),
            imports=made.imports.get(node.name, ()),
        )

    def run(*names, engine=None, caps=None, observers=None, cancel=None, **named):
        project = Project(
            tmp_path, "p", "1", engine=engine or EngineConfig(), retention=made.retention, connections=made.connections
        )
        graph = Graph(project, tuple(made.nodes))
        plan = Plan(graph, tuple(node_plan(n) for n in made.nodes), MemoryBudget(None, 0, 0, 0), caps or {})
        chosen = frozenset(n.id for n in made.nodes if not names or n.name in names)
        made.run_number += 1
        run_id = f"20260101T0000{made.run_number:02d}000Z-0000"
        made.last = tmp_path / ".pz" / "runs" / run_id
        return execute(
            plan,
            chosen,
            OneEngine(made),
            run_id=run_id,
            started_at="2026-01-01T00:00:00.123456Z",
            observers=[made.recorder] if observers is None else observers,
            cancel=cancel,
            **named,
        )

    def results():
        return json.loads((made.last / "run_results.json").read_text())

    def status(result):
        return {n.name: n.status for n in result.nodes}

    made.source, made.pipeline, made.check, made.sink = source, pipeline, check, sink
    made.run, made.results, made.status, made.replace = run, results, status, replace
    return made
