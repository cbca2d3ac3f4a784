"""Nodes made from what compiling found: names, ids, headers and edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from pz_core.compile.assemble import Assembled
from pz_core.compile.binding import Key, Read, Strategies, Write
from pz_core.compile.ids import check_id, pipeline_id, sink_id, source_id
from pz_core.compile.model import CheckNode, Incremental, Node, PipelineNode, SinkNode, SourceNode
from pz_core.compile.reads import Cursor, check_read
from pz_core.errors import Problems, Where
from pz_core.project.model import PipelineFile, Project
from pz_core.project.names import staging_relation


class Parts(Struct, frozen=True):
    """All that nodes are made of. The ``stable`` parts are the same in every run; ids come from these.

    Args:
        sql: pipeline -> what runs, with NULL guards.
        incremental: dataset -> how it is read incrementally, by YAML or by SQL.
    """

    project: Project
    pipelines: Mapping[str, Assembled]
    readers: Mapping[Key, tuple[str, ...]]
    reads: Mapping[Key, Read]
    writes: Mapping[Key, Write]
    cursors: Mapping[Key, Cursor]
    sql: Mapping[str, str]
    stable_sql: Mapping[str, str]
    stable_reads: Mapping[Key, Read]
    stable_writes: Mapping[Key, Write]
    incremental: Mapping[Key, Incremental] = field(default_factory=dict)


def refuse_collisions(parts: Parts, problems: Problems) -> None:
    """PZ0110 for datasets or pipelines that would share a staging relation, PZ0230 for one of each."""
    relations: dict[str, list[Key]] = {}
    for key in parts.readers:
        relations.setdefault(staging_relation(*key).casefold(), []).append(key)
    for relation, keys in sorted(relations.items()):
        if len(keys) > 1:
            problems.error(
                "PZ0110",
                f"{' and '.join(f'{c}.{e}' for c, e in keys)} would both land in staging.{relation}",
                where=parts.reads[keys[-1]].where,
                hint="rename one of the connections, or read one of the datasets under another spelling, for example "
                "as a query dataset with a name of its own",
            )
    names: dict[str, list[PipelineFile]] = {}
    for pipeline in sorted(parts.project.pipelines, key=lambda p: p.name):
        names.setdefault(pipeline.name.casefold(), []).append(pipeline)
    for folded, same in sorted(names.items()):
        if len(same) > 1:
            problems.error(
                "PZ0110",
                f"pipelines {' and '.join(f'{p.name} ({p.file})' for p in same)} differ only by case and would share "
                f"one staging table",
                where=Where(same[-1].file),
                hint="rename one of the files",
            )
        for pipeline in same:
            if pipeline.name in parts.pipelines and folded in relations:
                connection, entity = relations[folded][0]
                problems.error(
                    "PZ0230",
                    f"pipeline '{pipeline.name}' has the name of staging.{staging_relation(connection, entity)}, where "
                    f"{connection}.{entity} lands",
                    where=Where(pipeline.file),
                    hint="rename the pipeline's file",
                )


def make_nodes(parts: Parts, strategies: Strategies) -> tuple[Node, ...]:
    """All nodes, in no particular order."""
    sources = {key: _source(parts, key) for key in parts.readers}
    pipelines: dict[str, PipelineNode] = {}
    ids = {
        name: pipeline_id(name, _materialization(item), parts.stable_sql[name])
        for name, item in parts.pipelines.items()
    }
    for name, item in parts.pipelines.items():
        parents = {sources[key].id for key in item.sources} | {ids[ref] for ref in item.refs}
        pipeline = item.query.rendered.pipeline
        pipelines[name] = PipelineNode(
            id=ids[name],
            name=name,
            file=pipeline.file,
            sql=parts.sql[name],
            materialization=_materialization(item),
            headers=_headers(parts, item),
            tags=pipeline.sidecar.tags,
            depends_on=tuple(sorted(parents)),
            sources=tuple(f"{c}.{e}" for c, e in item.sources),
            where=Where(pipeline.file),
        )
    checks = _checks(parts, pipelines)
    sinks = [_sink(parts, item, call_key, where, ids, strategies) for item, call_key, where in _outputs(parts)]
    return (*sources.values(), *pipelines.values(), *checks, *sinks)


def outputs(parts: Parts) -> list[tuple[Write, Where]]:
    """What pipelines load, each with the place of its ``sink()`` call, sorted."""
    return [(parts.writes[key], where) for _, key, where in _outputs(parts)]


def _outputs(parts: Parts) -> list[tuple[Assembled, Key, Where]]:
    found = [
        (item, (call.connection, call.entity), call.where)
        for item in parts.pipelines.values()
        for call in item.query.rendered.sinks
    ]
    return sorted(found, key=lambda o: o[1])


def _materialization(item: Assembled) -> str:
    return item.query.rendered.pipeline.sidecar.materialization


def _source(parts: Parts, key: Key) -> SourceNode:
    connection, entity = key
    read = parts.reads[key]
    cursor = parts.cursors.get(key)
    sync = cursor.sync if cursor else read.declaration.sync
    stable = parts.stable_reads.get(key)
    return SourceNode(
        id=source_id(connection, entity, read.declaration, sync) if stable is None else _stable_source_id(stable),
        name=staging_relation(connection, entity),
        connection=connection,
        connector=parts.project.connections[connection].connector,
        entity=entity,
        options=read.declaration.options,
        columns=read.declaration.columns or None,
        readers=parts.readers[key],
        sync=sync,
        incremental=parts.incremental.get(key),
        retry=read.declaration.retry,
        where=read.where,
    )


def _stable_source_id(read: Read) -> str:
    # Faults were told of the read as this run has it; here only the canonical form of its window is wanted.
    cursor = check_read(read, Problems())
    return source_id(read.connection, read.entity, read.declaration, cursor.sync if cursor else read.declaration.sync)


def _sink(
    parts: Parts, item: Assembled, key: Key, where: Where, ids: Mapping[str, str], strategies: Strategies
) -> SinkNode:
    connection, entity = key
    write = parts.writes[key]
    policy = strategies.schema_policy(write)
    stable = parts.stable_writes.get(key, write).declaration
    declared = write.declaration
    return SinkNode(
        id=sink_id(
            connection,
            entity,
            item.name,
            strategy=write.strategy,
            schema_policy=policy,
            keys=stable.keys,
            duplicates=stable.duplicates,
            on_delete=stable.on_delete,
            options=stable.options,
        ),
        name=f"{connection}.{entity}",
        connection=connection,
        connector=parts.project.connections[connection].connector,
        entity=entity,
        pipeline=item.name,
        strategy=write.strategy,
        keys=declared.keys,
        schema_policy=policy,
        options=declared.options,
        duplicates=declared.duplicates,
        on_delete=declared.on_delete,
        retry=declared.retry,
        where=where,
        depends_on=(ids[item.name],),
    )


def _headers(parts: Parts, item: Assembled) -> tuple[str, ...]:
    made: list[str] = []
    for connection, entity in item.sources:
        found = parts.incremental.get((connection, entity))
        if found is not None and found.in_sql:
            made.append(f"-- incremental: {connection}.{entity} (cursor {found.cursor}, declared in SQL)")
    for key in sorted({(c.connection, c.entity) for c in item.query.rendered.sinks}):
        write = parts.writes[key]
        format = write.declaration.options.get("format")
        words = f"{format}, {write.strategy}" if isinstance(format, str) and format else write.strategy
        made.append(f"-- output: {write.output} ({words})")
    # An entity or a column may be spelled with a line end only by somebody who wants SQL into a comment line.
    return tuple(" ".join(line.splitlines()) for line in made)


def _checks(parts: Parts, pipelines: Mapping[str, PipelineNode]) -> Iterable[CheckNode]:
    taken: set[str] = set()
    for name, node in pipelines.items():
        sidecar = parts.pipelines[name].query.rendered.pipeline.sidecar
        for entry in sidecar.checks:
            definition = entry.definition
            tail = (definition.name,) if definition.name else (definition.kind, *definition.columns)
            samples = parts.project.engine.check_samples if entry.sample_values is None else entry.sample_values
            yield CheckNode(
                id=check_id(name, definition),
                name=_free(f"check_{name}_{'_'.join(tail)}", taken),
                pipeline=name,
                entry=entry,
                samples=samples,
                where=entry.where if entry.where != Where() else Where(node.file),
                depends_on=(node.id,),
            )


def _free(name: str, taken: set[str]) -> str:
    made, number = name, 1
    while made in taken:
        number += 1
        made = f"{name}_{number}"
    taken.add(made)
    return made


def warn_of_dead_ends(nodes: Sequence[Node], problems: Problems) -> None:
    """PZ0223 for a pipeline that nothing depends on."""
    used = {parent for node in nodes for parent in node.depends_on}
    for node in sorted((n for n in nodes if isinstance(n, PipelineNode)), key=lambda n: n.name):
        if node.id not in used:
            problems.warn(
                "PZ0223",
                f"nothing uses pipeline '{node.name}': it has no sink, no check, and no pipeline refs it",
                where=Where(node.file),
                hint="load it with INSERT INTO {{ sink(…) }}, ref it, add a check, or remove it",
            )
