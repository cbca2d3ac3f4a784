"""Renders a pipeline: template to SQL, and the calls on the way, which are the only edges that there are."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from pz_core.compile.faults import Fault
from pz_core.compile.model import RunConstants
from pz_core.compile.rendered import (
    RefCall,
    Rendered,
    SinkCall,
    SourceCall,
    WatermarkCall,
    ephemeral_names,
    sentinel,
    sink_marker,
)
from pz_core.compile.scanner import Kind, normalise, scan
from pz_core.errors import Problems, PzError, Where
from pz_core.plugins.registry import Registry
from pz_core.project.declarations import read_declaration, write_declaration
from pz_core.project.model import PipelineFile, Project
from pz_core.project.names import entity_fault, staging_relation
from pz_core.values import Value
from pz_core.values.config import is_unicode

__all__ = [
    "RefCall",
    "Rendered",
    "SinkCall",
    "SourceCall",
    "WatermarkCall",
    "ephemeral_names",
    "render",
    "sentinel",
    "sink_marker",
]


def render(
    pipeline: PipelineFile,
    project: Project,
    registry: Registry,
    *,
    environ: Mapping[str, str] | None = None,
    constants: RunConstants | None = None,
    ephemeral: frozenset[str] | None = None,
) -> Rendered:
    """Render a pipeline.

    Args:
        pipeline: the file as written.
        project: its variables, the names that ``env()`` may read, and which pipelines are ephemeral.
        registry: the plugins, for the options of calls.
        environ: the environment, that of the process if left out.
        constants: ``run_id`` and ``run_started_at``.
        ephemeral: what :func:`ephemeral_names` says, to save working it out for every pipeline.

    Raises:
        PzErrors: with every fault of the file that could be found.
    """
    text = normalise(pipeline.text)
    faults: list[Fault] = []
    pieces = scan(text, faults)
    if not faults and all(piece.kind in (Kind.SQL, Kind.COMMENT) for piece in pieces):
        return Rendered(pipeline, "".join(piece.text for piece in pieces))
    # Only now is Jinja needed: a project without templates does not pay for it.
    from pz_core.compile.sandbox import Renderer
    from pz_core.compile.statements import build

    steps = build(pieces, faults)
    lost = any(fault.structural for fault in faults)
    environ = os.environ if environ is None else environ
    scope = _Scope(pipeline, project, registry, environ, constants or RunConstants(), ephemeral)
    found: list[Fault] = []
    made = Renderer(scope, found).render(steps)
    # What a broken statement would have named is no second fault.
    faults.extend(fault for fault in found if not (lost and fault.undefined))
    for fault in faults:
        scope.problems.error(fault.code, fault.message, where=Where(pipeline.file, fault.line), hint=fault.hint)
    scope.problems.raise_if_any()
    return Rendered(
        pipeline,
        made,
        tuple(scope.sources),
        tuple(scope.refs),
        tuple(scope.sinks),
        tuple(scope.watermarks),
        scope.uses_run_constants,
        tuple(scope.problems.notices),
        tuple(sorted(scope.variables)),
        scope.reads_environment,
    )


class _Scope:
    """The functions and constants of one render."""

    functions = frozenset({"source", "ref", "sink", "watermark", "var", "env"})
    constants = frozenset({"this", "run_id", "run_started_at"})

    def __init__(
        self,
        pipeline: PipelineFile,
        project: Project,
        registry: Registry,
        environ: Mapping[str, str],
        constants: RunConstants,
        ephemeral: frozenset[str] | None,
    ) -> None:
        self.problems = Problems()
        self.sources: list[SourceCall] = []
        self.refs: list[RefCall] = []
        self.sinks: list[SinkCall] = []
        self.watermarks: list[WatermarkCall] = []
        self.uses_run_constants = False
        self.variables: set[str] = set()
        self.reads_environment = False
        self._pipeline = pipeline
        self._project = project
        self._registry = registry
        self._environ = environ
        self._constants = constants
        self._ephemeral = ephemeral

    def constant(self, name: str) -> str:
        if name == "this":
            return f"staging.{self._pipeline.name}"
        self.uses_run_constants = True
        return self._constants.run_id if name == "run_id" else self._constants.run_started_at

    def call(self, name: str, args: list[Any], kwargs: list[tuple[str, Any]], broken: bool, line: int) -> Any:
        if name == "source":
            return self._source(args, kwargs, broken, line)
        if name == "sink":
            return self._sink(args, kwargs, broken, line)
        if broken:
            raise Fault("", line, known=True)
        wanted = 2 if name == "watermark" else 1
        if kwargs or len(args) != wanted or not all(isinstance(arg, str) for arg in args):
            example = "watermark('connection', 'entity')" if wanted == 2 else f"{name}('name')"
            amount = "two texts" if wanted == 2 else "one text"
            raise Fault(f"{name}() takes {amount} and nothing else", line, hint=f"write {example}")
        if name == "ref":
            return self._ref(args[0], line)
        if name == "var":
            return self._var(args[0], line)
        if name == "env":
            return self._env(args[0], line)
        return self._watermark(args[0], args[1], line)

    def _where(self, line: int) -> Where:
        return Where(self._pipeline.file, line)

    def _ref(self, name: str, line: int) -> str:
        self.refs.append(RefCall(name, self._where(line)))
        if self._ephemeral is None:
            self._ephemeral = ephemeral_names(self._project)
        return f"__pz_cte__{name}" if name in self._ephemeral else f"staging.{name}"

    def _var(self, name: str, line: int) -> Any:
        self.variables.add(name)
        if name not in self._project.vars:
            raise Fault(
                f"there is no variable '{name}'",
                line,
                hint="declare it under vars: in project.yml or pass it with --vars",
                undefined=True,
            )
        return self._project.vars[name]

    def _env(self, name: str, line: int) -> str:
        self.reads_environment = True
        if name not in self._project.env:
            hint = f"add {name} to the list under env: in project.yml, or read it with var() from vars:"
            raise Fault(f"env() may not read {name}: project.yml does not list it", line, code="PZ0103", hint=hint)
        if name not in self._environ:
            hint = "set it before pz starts"
            raise Fault(f"the environment variable {name} is not set", line, code="PZ0103", hint=hint)
        if not is_unicode(self._environ[name]):
            hint = f"set {name} to a text in UTF-8"
            fault = f"the environment variable {name} holds bytes that are no UTF-8"
            raise Fault(fault, line, code="PZ0103", hint=hint)
        return self._environ[name]

    def _watermark(self, connection: str, entity: str, line: int) -> str:
        self._check_entity("watermark", connection, entity, line)
        made = sentinel(connection, entity)
        self.watermarks.append(WatermarkCall(connection, entity, self._where(line), made))
        return made

    def _source(self, args: list[Any], kwargs: list[tuple[str, Any]], broken: bool, line: int) -> str:
        where = self._where(line)
        options = self._options("source", "PZ0201", args, kwargs, broken, line)
        connection, entity = self._place("source", "PZ0201", args, broken, line)
        self._finite(options, f"{connection}.{entity}", where)
        declaration = None
        if kwargs:
            declaration = read_declaration(
                options,
                subject=f"{connection}.{entity}",
                where=where,
                surface="call",
                problems=self.problems,
                registry=self._registry,
            )
        self.sources.append(SourceCall(connection, entity, declaration, where))
        return f"staging.{staging_relation(connection, entity)}"

    def _sink(self, args: list[Any], kwargs: list[tuple[str, Any]], broken: bool, line: int) -> str:
        where = self._where(line)
        options = self._options("sink", "PZ0208", args, kwargs, broken, line)
        connection, entity = self._place("sink", "PZ0208", args, broken, line)
        self._finite(options, f"{connection}.{entity}", where)
        declaration = None
        if kwargs:
            declaration = write_declaration(
                options,
                subject=f"{connection}.{entity}",
                where=where,
                surface="call",
                problems=self.problems,
                registry=self._registry,
            )
        marker = sink_marker(connection, entity)
        self.sinks.append(SinkCall(connection, entity, declaration, where, marker))
        return marker

    def _options(
        self, name: str, code: str, args: list[Any], kwargs: list[tuple[str, Any]], broken: bool, line: int
    ) -> dict[str, Value]:
        """The named arguments; of a repeated one the first counts, so that its own faults are found too."""
        made: dict[str, Value] = {}
        repeated: set[str] = set()
        for key, value in kwargs:
            if key not in made:
                if _holds_none(value):
                    hint = "leave the option out, or write 'none' for the text"
                    fault = f"the option '{key}' of {name}() holds none, which no option takes"
                    self.problems.error("PZ0104", fault, where=self._where(line), hint=hint)
                    continue
                made[key] = value
            elif key not in repeated:
                repeated.add(key)
                about = ".".join(arg for arg in args if isinstance(arg, str)) or "its entity"
                self.problems.error(
                    code,
                    f"{name}() of {about} in pipeline {self._pipeline.name} gives '{key}' twice",
                    where=self._where(line),
                    hint="keep one of them",
                )
        return made

    def _place(self, name: str, code: str, args: list[Any], broken: bool, line: int) -> tuple[str, str]:
        if len(args) != 2 or not all(isinstance(arg, str) for arg in args):
            if broken and len(args) <= 2 and all(isinstance(arg, str) for arg in args):
                raise Fault("", line, known=True)
            named = "".join(f" '{arg}'" for arg in args if isinstance(arg, str))
            raise Fault(
                f"{name}(){' of' + named if named else ''} in pipeline {self._pipeline.name} "
                "takes a connection and an entity, both texts, and then options by name",
                line,
                code=code,
                hint=f"write {name}('connection', 'entity', option: value)",
            )
        connection, entity = args
        self._check_entity(name, connection, entity, line)
        return connection, entity

    def _check_entity(self, name: str, connection: str, entity: str, line: int) -> None:
        reason = entity_fault(entity)
        if reason is not None:
            raise Fault(
                f"{name}() names the entity '{entity}' of {connection}, but {reason}",
                line,
                code="PZ0344",
                hint="spell the entity as its own system does, such as orders or mart.orders",
            )

    def _finite(self, options: dict[str, Value], subject: str, where: Where) -> None:
        """Take out options that no canonical form exists for."""
        for key in [key for key, value in options.items() if not _is_finite(value)]:
            del options[key]
            self.problems.add(
                PzError(
                    "PZ0137",
                    f"the option '{key}' of {subject} holds a number that is not finite",
                    where=where,
                    hint="give it a number that has digits",
                )
            )


def _is_finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(_is_finite(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return all(_is_finite(part) for part in value)
    return True


def _holds_none(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_none(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_none(part) for part in value)
    return value is None
