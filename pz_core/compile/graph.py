"""From a loaded project to its graph, stage by stage; a stage that found faults ends the compile with all of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pz_core.compile.assemble import Assembled, Query, assemble, readers_of, refuse_other_statements
from pz_core.compile.binding import (
    Key,
    Read,
    Strategies,
    Write,
    check_keys,
    find_reads,
    find_writes,
    refuse_disagreeing_calls,
    refuse_second_reader,
    refuse_two_surfaces,
    refuse_unbound_sinks,
    refuse_unknown_targets,
)
from pz_core.compile.flows import find_flows
from pz_core.compile.inferred import DatasetInfo, Inferred
from pz_core.compile.model import Graph, Incremental, RunConstants
from pz_core.compile.nodes import Parts, make_nodes, outputs, refuse_collisions, warn_of_dead_ends
from pz_core.compile.order import execution_order, loops
from pz_core.compile.pairing import Upstream, check_pairing
from pz_core.compile.prefix import split_insert
from pz_core.compile.reads import Cursor, check_read, check_write
from pz_core.compile.rendered import ephemeral_names
from pz_core.errors import Problems, PzErrors, Where
from pz_core.project.names import staging_relation
from pz_core.values.collection import paused_collection

if TYPE_CHECKING:
    from pz_core.compile.cache import CompileCache
    from pz_core.compile.rendered import Rendered
    from pz_core.plugins import Registry
    from pz_core.project import Loaded
    from pz_core.project.model import PipelineFile, Project


def compile_project(
    loaded: Loaded,
    *,
    environ: Mapping[str, str] | None = None,
    constants: RunConstants | None = None,
    cache: CompileCache | None = None,
) -> Graph:
    """Render every pipeline and make the graph of nodes.

    Args:
        loaded: the project with its registry.
        environ: what ``env()`` reads, the process's environment by default.
        constants: ``run_id`` and ``run_started_at`` for templates; those of verbs that do not run by default.
        cache: what earlier compiles made; asked first, and told what is made now. The graph is the same with and
            without it.

    Returns:
        The graph, with the warnings and notes of all stages (those of loading are in ``loaded.notices``).

    Raises:
        PzErrors: all faults of the first stage that has any.
    """
    made = constants or RunConstants()
    with paused_collection():
        return _Compiler(
            loaded.project, loaded.registry, os.environ if environ is None else environ, made, cache
        ).graph()


class _Compiler:
    def __init__(
        self,
        project: Project,
        registry: Registry,
        environ: Mapping[str, str],
        constants: RunConstants,
        cache: CompileCache | None,
    ) -> None:
        self._project = project
        self._registry = registry
        self._environ = environ
        self._constants = constants
        self._cache = cache
        self._ephemeral = ephemeral_names(project)
        self._problems = Problems()
        self._strategies = Strategies(registry, self._problems)

    def graph(self) -> Graph:
        problems, project = self._problems, self._project
        rendered = self._render_all()
        queries = [Query(item, split_insert(item, problems)) for item in rendered]
        problems.raise_if_any()
        refuse_two_surfaces(project, rendered, problems)
        problems.raise_if_any()
        reads, writes = find_reads(project, rendered), find_writes(project, rendered)
        cursors = self._joint_batch(rendered, queries, reads, writes)
        refuse_unbound_sinks(project, rendered, problems)
        problems.raise_if_any()
        pipelines = assemble(queries)
        readers = readers_of(pipelines)
        refuse_second_reader(readers, reads, problems)
        problems.raise_if_any()
        refuse_disagreeing_calls(rendered, problems)
        problems.raise_if_any()
        sql, incremental = self._infer(queries, pipelines, reads, cursors)
        problems.raise_if_any()
        stable, stable_reads, stable_writes = self._stable(queries)
        parts = Parts(
            project,
            pipelines,
            readers,
            reads,
            writes,
            cursors,
            sql,
            stable_sql={name: item.sql for name, item in (stable or pipelines).items()},
            stable_reads=stable_reads,
            stable_writes=stable_writes,
            incremental=incremental,
        )
        refuse_collisions(parts, problems)
        problems.raise_if_any()
        check_pairing(outputs(parts), _upstream(parts), self._strategies, problems)
        problems.raise_if_any()
        nodes = make_nodes(parts, self._strategies)
        warn_of_dead_ends(nodes, problems)
        self._refuse_loops(rendered)
        ordered = execution_order(nodes)
        return Graph(project, ordered, find_flows(ordered), tuple(problems.notices), self._constants)

    # --- stages ------------------------------------------------------------------------------------------------------

    def _render_all(self) -> list[Rendered]:
        made: list[Rendered] = []
        for pipeline in sorted(self._project.pipelines, key=lambda p: p.name):
            try:
                item = self._render(pipeline, self._constants)
            except PzErrors as errors:
                self._problems.add(errors)
            else:
                made.append(item)
                self._problems.notices.extend(item.notices)
        self._problems.raise_if_any()
        return made

    def _render(self, pipeline: PipelineFile, constants: RunConstants) -> Rendered:
        cache = self._cache if "{" in pipeline.text else None  # without an island there is nothing to save
        neutral = constants == RunConstants()
        known = cache.rendered(pipeline, self._ephemeral, neutral=neutral) if cache is not None else None
        if known is not None:
            return known
        from pz_core.compile.template import render

        made = render(
            pipeline,
            self._project,
            self._registry,
            environ=self._environ,
            constants=constants,
            ephemeral=self._ephemeral,
        )
        if cache is not None:
            cache.keep(made, self._ephemeral, neutral=neutral)
        return made

    def _joint_batch(
        self,
        rendered: Sequence[Rendered],
        queries: Sequence[Query],
        reads: Mapping[Key, Read],
        writes: Mapping[Key, Write],
    ) -> dict[Key, Cursor]:
        """Everything that can be told of declarations and names alone, in one go."""
        problems = self._problems
        check_keys(writes.values(), self._strategies, problems)
        cursors: dict[Key, Cursor] = {}
        for key, read in reads.items():
            cursor = check_read(read, problems)
            if cursor is not None:
                cursors[key] = cursor
        for write in writes.values():
            check_write(write, problems)
        refuse_unknown_targets(self._project, rendered, problems)
        refuse_other_statements(queries, problems)
        problems.raise_if_any()
        return cursors

    def _infer(
        self,
        queries: Sequence[Query],
        pipelines: Mapping[str, Assembled],
        reads: Mapping[Key, Read],
        cursors: Mapping[Key, Cursor],
    ) -> tuple[dict[str, str], dict[Key, Incremental]]:
        """The SQL that runs, and how each dataset is read incrementally: by YAML, or by SQL as inferred."""
        found = {
            key: Incremental(cursor.sync.cursor or "", cursor.type, cursor.sync) for key, cursor in cursors.items()
        }
        sql = {name: item.sql for name, item in pipelines.items()}
        lasting = self._lasting(queries)
        for name, item in pipelines.items():
            if not item.watermarks:
                continue
            infos = {
                f"{key[0]}.{key[1]}": DatasetInfo(
                    key[0], key[1], staging_relation(*key), reads[key].declaration.columns, reads[key].declaration.sync
                )
                for key in item.sources
            }
            inferred = self._inferred(item, infos, lasting)
            self._problems.errors.extend(inferred.problems.errors)
            self._problems.notices.extend(inferred.problems.notices)
            sql[name] = inferred.sql
            for key in item.sources:
                by_sql = inferred.incrementals.get(f"{key[0]}.{key[1]}")
                if by_sql is not None:
                    found[key] = by_sql
        return sql, found

    def _inferred(self, item: Assembled, infos: Mapping[str, DatasetInfo], lasting: frozenset[str]) -> Inferred:
        pipeline = item.query.rendered.pipeline
        shown = {item.name, *(ref.name for ref in item.query.rendered.refs if ref.name in self._ephemeral)}
        cache = self._cache if shown <= lasting else None
        key = ""
        if cache is not None:
            key = cache.inference_key(item.sql, pipeline, item.watermarks, infos)
            known = cache.inferred(item.name, key)
            if known is not None:
                return known
        from pz_core.compile.watermark import infer

        made = infer(item.sql, pipeline=item.name, where=Where(pipeline.file), calls=item.watermarks, datasets=infos)
        if cache is not None:
            cache.keep_inferred(item.name, key, made)
        return made

    def _lasting(self, queries: Sequence[Query]) -> frozenset[str]:
        """Names of the pipelines whose text may be kept; what inlines another one is judged by both."""
        if self._cache is None:
            return frozenset()
        neutral = self._constants == RunConstants()
        return frozenset(q.name for q in queries if self._cache.may_keep(q.rendered, neutral=neutral))

    def _stable(
        self, queries: Sequence[Query]
    ) -> tuple[dict[str, Assembled] | None, dict[Key, Read], dict[Key, Write]]:
        """The project as every run has it: pipelines that show the run's id or start, rendered without them."""
        moving = [q for q in queries if q.rendered.uses_run_constants]
        if not moving or self._constants == RunConstants():
            return None, {}, {}
        made: list[Query] = []
        for query in queries:
            if not query.rendered.uses_run_constants:
                made.append(query)
                continue
            try:
                item = self._render(query.rendered.pipeline, RunConstants())
            except PzErrors as errors:
                self._problems.add(errors)
                continue
            made.append(Query(item, split_insert(item, Problems())))
        self._problems.raise_if_any()
        again = [q.rendered for q in made]
        return assemble(made), find_reads(self._project, again), find_writes(self._project, again)

    def _refuse_loops(self, rendered: Sequence[Rendered]) -> None:
        files = {item.pipeline.name: item.pipeline.file for item in rendered}
        edges = {item.pipeline.name: sorted({r.name for r in item.refs}) for item in rendered}
        for loop in loops(edges):
            self._problems.error(
                "PZ0202",
                f"pipelines depend on each other in a loop: {' -> '.join(loop)}",
                where=Where(files[loop[0]]),
                hint="take one of these refs out, for example by reading what the other pipeline reads",
            )
        self._problems.raise_if_any()


def _upstream(parts: Parts) -> dict[str, Upstream]:
    """What lies above each pipeline that loads. Loops are no fault here, so every walk keeps its own memory."""
    consumers: dict[str, list[str]] = {}
    for name, item in parts.pipelines.items():
        for ref in item.refs:
            consumers.setdefault(ref, []).append(name)
    above: dict[str, dict[str, list[str]]] = {}
    curious = {
        write.pipeline for write in parts.writes.values() if write.pipeline and write.declaration.on_delete is not None
    }
    for key, readers in parts.readers.items():
        sync = parts.reads[key].declaration.sync
        kind = "incremental" if key in parts.incremental else sync.mode if sync is not None else "full"
        if kind == "full" and not curious:
            continue
        seen = set(readers)
        todo = list(readers)
        while todo:
            for other in consumers.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        for name in seen:
            kinds = above.setdefault(name, {})
            kinds.setdefault(kind, []).append(f"{key[0]}.{key[1]}")
            kinds.setdefault("all", []).append(f"{key[0]}.{key[1]}")
    return {
        name: Upstream(
            tuple(kinds["all"]),
            tuple(kinds.get("incremental", ())),
            tuple(kinds.get("cdc", ())),
            tuple(kinds.get("auto", ())),
        )
        for name, kinds in above.items()
    }
