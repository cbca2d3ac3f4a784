"""Hints of a read, once the entity's columns can be looked at: see :mod:`pz_core.contract.hints`."""

from __future__ import annotations

import duckdb
import msgspec.structs

from pz_core.contract.connector import ConnectorError, ReadHints, Source, resolved_scan
from pz_core.contract.engine import LandTask
from pz_core.contract.hints import fitting_hints
from pz_core.engines.duckdb.session import Session, Work
from pz_core.values import Column


def with_fitting_hints(session: Session, source: Source, task: LandTask, work: Work, subject: str) -> LandTask:
    """The task with hints that fit what the entity holds; with none where its columns cannot be known.

    Args:
        session: of the engine.
        source: open.
        task: as planned.
        work: of the task.
        subject: ``connection.entity``, for messages.
    """
    hints = task.read.hints
    if hints.columns is None and hints.predicate is None:
        return task
    plain = msgspec.structs.replace(task, read=msgspec.structs.replace(task.read, hints=ReadHints()))
    columns = _columns(session, source, plain, work, subject)
    if not columns:
        return plain
    return msgspec.structs.replace(task, read=msgspec.structs.replace(task.read, hints=fitting_hints(hints, columns)))


def _columns(session: Session, source: Source, task: LandTask, work: Work, subject: str) -> tuple[Column, ...]:
    """What the read yields without hints; nothing where that fails, since the read itself will tell it better."""
    try:
        scan = resolved_scan(source, task.read) if task.tier == "native" else None
        if scan is None:
            return source.schema(task.read)
        session.set_up(work, scan.setup, subject, task.node.name)
        return work.columns(f"({scan.query}\n)")
    except ConnectorError:
        return ()
    except duckdb.Error as error:
        work.recognise(error)
        return ()
