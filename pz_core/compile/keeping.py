"""Results of rendering and inference as plain data and back, exactly or not at all."""

from __future__ import annotations

from typing import Any

from pz_core.compile.inferred import Inferred
from pz_core.compile.model import Incremental, WatermarkBound
from pz_core.compile.rendered import (
    RefCall,
    Rendered,
    SinkCall,
    SourceCall,
    WatermarkCall,
    sentinel,
    sink_marker,
)
from pz_core.errors import Notice, Problems, Where
from pz_core.project.model import PipelineFile, ReadDeclaration, RetryConfig, SyncConfig, WriteDeclaration


class NotKept(Exception):
    """Plain data cannot hold a result as it is, or data is none of ours."""


def rendered_as_data(rendered: Rendered, ephemeral: frozenset[str]) -> list[Any]:
    """A render as JSON-ready data.

    Args:
        rendered: the render.
        ephemeral: names of ephemeral pipelines; which of its refs are among them is kept with it.

    Raises:
        NotKept: if it would not come back as it is.
    """
    made: list[Any] = [
        rendered.text,
        [[c.connection, c.entity, c.where.line, _read_as_data(c.declaration)] for c in rendered.sources],
        [[c.name, c.where.line, c.name in ephemeral] for c in rendered.refs],
        [[c.connection, c.entity, c.where.line, _write_as_data(c.declaration)] for c in rendered.sinks],
        [[c.connection, c.entity, c.where.line] for c in rendered.watermarks],
        rendered.uses_run_constants,
        _notices_as_data(rendered.notices),
        list(rendered.variables),
    ]
    _refuse_what_changes(made)
    # Whatever a later version adds to these records must not get lost here without a word.
    if rendered_of(made, rendered.pipeline, ephemeral) != rendered:
        raise NotKept
    return made


def rendered_of(data: Any, pipeline: PipelineFile, ephemeral: frozenset[str]) -> Rendered:
    """The render that data stands for.

    Raises:
        NotKept: if it refers to pipelines that have become ephemeral, or are no longer.
    """
    text, sources, refs, sinks, watermarks, constants, notices, variables = data
    file = pipeline.file
    for name, _, inlined in refs:
        if (name in ephemeral) is not inlined:
            raise NotKept
    if type(constants) is not bool:
        raise NotKept
    return Rendered(
        pipeline,
        _text(text),
        tuple([SourceCall(c, e, _read_of(d, where := Where(file, line)), where) for c, e, line, d in sources]),
        tuple([RefCall(name, Where(file, line)) for name, line, _ in refs]),
        tuple(
            [
                SinkCall(c, e, _write_of(d, where := Where(file, line)), where, sink_marker(c, e))
                for c, e, line, d in sinks
            ]
        ),
        tuple([WatermarkCall(c, e, Where(file, line), sentinel(c, e)) for c, e, line in watermarks]),
        constants,
        _notices_of(notices),
        tuple(variables),
    )


def inference_as_data(inferred: Inferred) -> list[Any]:
    """An inference without faults as JSON-ready data.

    Raises:
        NotKept: if it has faults, or would not come back as it is.
    """
    if inferred.problems.any:
        raise NotKept
    made: list[Any] = [
        inferred.sql,
        {
            name: [found.cursor, found.type, [[bound.op, bound.expression] for bound in found.bounds]]
            for name, found in inferred.incrementals.items()
        },
        _notices_as_data(tuple(inferred.problems.notices)),
    ]
    _refuse_what_changes(made)
    again = inference_of(made)
    if (again.sql, again.incrementals, again.problems.notices) != (
        inferred.sql,
        inferred.incrementals,
        inferred.problems.notices,
    ):
        raise NotKept
    return made


def inference_of(data: Any) -> Inferred:
    """The inference that data stands for."""
    sql, incrementals, notices = data
    problems = Problems()
    problems.notices.extend(_notices_of(notices))
    made = {
        name: Incremental(cursor, type, None, tuple([WatermarkBound(op, value) for op, value in bounds]))
        for name, (cursor, type, bounds) in incrementals.items()
    }
    return Inferred(_text(sql), made, problems)


# --- declarations ----------------------------------------------------------------------------------------------------


def _read_as_data(declaration: ReadDeclaration | None) -> list[Any] | None:
    if declaration is None:
        return None
    if declaration.lines:
        raise NotKept
    sync, columns = declaration.sync, declaration.columns
    return [
        dict(declaration.options),
        None if columns is None else dict(columns),
        None if sync is None else [sync.mode, sync.cursor, sync.max_window, sync.initial, sync.until, sync.slot],
        _retry_as_data(declaration.retry),
    ]


def _read_of(data: Any, where: Where) -> ReadDeclaration | None:
    if data is None:
        return None
    options, columns, sync, retry = data
    return ReadDeclaration(options, columns, None if sync is None else SyncConfig(*sync), _retry_of(retry), where)


def _write_as_data(declaration: WriteDeclaration | None) -> list[Any] | None:
    if declaration is None:
        return None
    if declaration.lines:
        raise NotKept
    return [
        dict(declaration.options),
        declaration.strategy,
        list(declaration.keys),
        declaration.duplicates,
        declaration.on_delete,
        declaration.schema_policy,
        _retry_as_data(declaration.retry),
    ]


def _write_of(data: Any, where: Where) -> WriteDeclaration | None:
    if data is None:
        return None
    options, strategy, keys, duplicates, on_delete, policy, retry = data
    return WriteDeclaration(options, strategy, tuple(keys), duplicates, on_delete, policy, _retry_of(retry), where)


def _retry_as_data(retry: RetryConfig | None) -> list[Any] | None:
    return None if retry is None else [retry.max_attempts, retry.base_delay_ms, retry.max_delay_ms]


def _retry_of(data: Any) -> RetryConfig | None:
    return None if data is None else RetryConfig(*data)


def _notices_as_data(notices: tuple[Notice, ...]) -> list[Any]:
    return [[n.severity, n.message, n.code, n.where.file, n.where.line, n.where.node, n.hint] for n in notices]


def _notices_of(data: Any) -> tuple[Notice, ...]:
    return tuple([Notice(kind, text, code, Where(*where), hint) for kind, text, code, *where, hint in data])


# --- plain data ------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if type(value) is not str:
        raise NotKept
    return value


def _refuse_what_changes(value: Any) -> None:
    """Refuse what JSON would give back as something else."""
    kind = type(value)
    if kind in (str, int, bool) or value is None or (kind is float and value - value == 0):
        return
    if kind is list:
        for item in value:
            _refuse_what_changes(item)
    elif kind is dict and all(type(key) is str for key in value):
        for item in value.values():
            _refuse_what_changes(item)
    else:
        raise NotKept
