"""Drain: what every way of loading begins with, and the choice among them.

Sources: engine.md 2.6, 3.3, 4.2; DESIGN "Contracts in short" (a strategy's program runs where the target lives).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import duckdb
import msgspec.structs

from pz_core.contract.connector import DeliveringSink, NativeCopy, NativeStream, NativeTarget, Sink
from pz_core.contract.engine import DrainResult, DrainTask, Host, NotMoved, TaskWarning
from pz_core.contract.strategy import LoadRequest, Probe, Strategy
from pz_core.engines.duckdb.capturing import mark_deletes
from pz_core.engines.duckdb.drain_copy import copy_out
from pz_core.engines.duckdb.drain_table import load_table
from pz_core.engines.duckdb.errors import edge_error, pipeline_error
from pz_core.engines.duckdb.landing import connector_faults, stoppable
from pz_core.engines.duckdb.ledger import refuse_without
from pz_core.engines.duckdb.loading import Batch
from pz_core.engines.duckdb.session import Session, Work, staged
from pz_core.errors import PzError, Where

_HINT = "correct the pipeline that the output is loaded from"


def drain(
    session: Session, host: Host, batch_bytes: int, task: DrainTask, work: Work, passing: str | None = None
) -> DrainResult:
    """Load a relation into its target, by whatever way the sink offers now.

    Args:
        session: of the run.
        host: hands out the connector and the strategy.
        batch_bytes: target size of a batch.
        task: what to load.
        work: of the task.
        passing: quoted name of a relation whose rows are made as they are asked for, instead of the staged one.

    Raises:
        NotMoved: with ``passing``: if the rows would have to be held, or a failure would leave a part in the target.
        ConnectorError: what the connector said, or a fault of DuckDB on the connector's target.
        PzError: a probe's code, PZ0804, PZ0811, PZ0812, PZ0324, PZ0501, PZ0520.
        Cancelled: if told to stop before the commit.
    """
    subject, node = f"{task.connection}.{task.write.entity}", task.node.name
    if task.write.load_mode == "rewrite":
        raise PzError(
            "PZ0324",
            f"{subject}: the engine cannot rewrite a file in place yet, as strategy '{task.write.strategy}' needs it",
            where=Where(node=node),
            hint="load into a database table, or choose another strategy",
        )
    spec = msgspec.structs.replace(
        task.write,
        attempt=work.control.attempt,
        node_id=task.write.node_id or task.node.id,
        run_id=task.write.run_id or session.settings.run_id,
    )
    task = msgspec.structs.replace(task, write=spec)
    strategy = cast(Strategy, host.strategy(spec.strategy))
    with connector_faults(subject, node):
        sink = host.connector(task.connection).open_sink()
    stoppable(sink, work)
    try:
        with connector_faults(subject, node):
            partial = passing is not None and sink.abort_semantics() != "discards_all"
        if partial:
            raise NotMoved(None, tried=False)
        result = _drain(session, sink, strategy, batch_bytes, task, work, subject, passing)
    except BaseException:
        _close_quietly(sink)
        raise
    with connector_faults(subject, node):
        sink.close()
    return result


def _drain(
    session: Session,
    sink: Sink,
    strategy: Strategy,
    batch_bytes: int,
    task: DrainTask,
    work: Work,
    subject: str,
    passing: str | None,
) -> DrainResult:
    node = task.node.name
    way: NativeCopy | NativeTarget | NativeStream | None = None
    relation = passing or staged(task.relation)
    try:
        batch = Batch(work, relation, work.columns(relation), subject, node, passing=passing is not None)
        mark_deletes(batch, task, work, session.settings.started_at)
    except duckdb.Error as error:
        work.recognise(error)
        raise pipeline_error(error, node, _HINT) from error
    if task.tier == "native":
        with connector_faults(subject, node):
            way = sink.native_write(msgspec.structs.replace(task.write, columns=batch.columns))
    if task.ledger is not None and isinstance(way, NativeCopy):
        refuse_without(subject, node)
    try:
        request = LoadRequest(
            output=subject,
            staged=batch.name,
            target=batch.name,
            columns=batch.loaded,
            keys=task.write.keys,
            options=task.strategy_options,
            run_id=task.write.run_id,
            started_at=session.settings.started_at,
            source_system=task.source_system,
            gone=batch.gone,
            on_delete=task.write.on_delete,
        )
        probes = strategy.probes(request)
        if probes or isinstance(way, NativeTarget):
            if passing is not None:
                raise NotMoved(None, tried=False)
            batch.settle()
            request = msgspec.structs.replace(request, staged=batch.name)
            probes = strategy.probes(request)
        warnings = ask(work, probes, node)
        request = msgspec.structs.replace(request, tripped=frozenset(w.code for w in warnings))
    except duckdb.Error as error:
        work.recognise(error)
        raise pipeline_error(error, node, _HINT) from error
    if isinstance(way, (NativeCopy, NativeTarget)):
        session.set_up(work, way.setup, subject, node)
    try:
        if isinstance(way, NativeCopy):
            deliverer = sink if isinstance(sink, DeliveringSink) else None
            result = copy_out(batch, way, work, spec=task.write, deliverer=deliverer)
        elif isinstance(way, NativeTarget):
            result = load_table(session, batch, way, strategy, request, task, work)
        else:
            from pz_core.engines.duckdb.drain_stream import stream_out  # most loads need none of it

            result = stream_out(session, sink, batch, strategy, request, task, batch_bytes, work, way is not None)
    except duckdb.Error as error:
        work.recognise(error)
        raise edge_error(error, subject, node) from error
    return msgspec.structs.replace(
        result, rows_staged=result.rows_staged - batch.deletes, warnings=warnings, deletes=batch.deletes
    )


def ask(work: Work, probes: Sequence[Probe], node: str) -> tuple[TaskWarning, ...]:
    """Ask a strategy's probes.

    Returns:
        The warnings that tripped.

    Raises:
        PzError: of the first probe that fails the load; the messages of further ones are appended.
    """
    warnings: list[TaskWarning] = []
    errors: list[tuple[Probe, str]] = []
    for probe in probes:
        row = work.run(probe.sql).fetchone()
        if not row or not row[0]:
            continue
        message = probe.message.format(*row)
        if probe.severity == "warning":
            numbers = {n: int(v) for n, v in zip(probe.fields, row, strict=False) if isinstance(v, (int, float))}
            warnings.append(TaskWarning(probe.code, message, numbers))
        else:
            errors.append((probe, message))
    if errors:
        first, message = errors[0]
        more = "".join(f"; {other.code}: {text}" for other, text in errors[1:])
        raise PzError(first.code, message + more, where=Where(node=node), hint=first.hint)
    return tuple(warnings)


def _close_quietly(sink: Sink) -> None:
    try:
        sink.close()
    except Exception:  # noqa: BLE001 - the fault before it is the one to tell
        return
