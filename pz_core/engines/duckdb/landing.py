"""Land: what both ways share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import duckdb

from pz_core.contract.connector import Interruptible
from pz_core.contract.engine import Cancelled, LandTask
from pz_core.engines.duckdb.channel import Stopped
from pz_core.engines.duckdb.errors import counts_disagree, foreign_error
from pz_core.engines.duckdb.session import Work
from pz_core.errors import PzError, PzErrors


def subject_of(task: LandTask) -> str:
    """``connection.entity``."""
    return f"{task.connection}.{task.read.entity}"


@contextlib.contextmanager
def connector_faults(subject: str, node: str) -> Iterator[None]:
    """Let coded faults and DuckDB's own through, and name whatever else a connector lets escape."""
    try:
        yield
    except (PzError, PzErrors, Cancelled, Stopped, duckdb.Error):
        raise
    except Exception as error:
        raise foreign_error(error, subject, node) from error


def stoppable(opened: object, work: Work) -> None:
    """Have a source or a sink stopped with the task, if it can be."""
    if isinstance(opened, Interruptible):
        work.also_on_cancel(opened.interrupt)


def account(work: Work, target: str, read: int, trimmed: int, subject: str, node: str) -> None:
    """Before the commit: the table must hold the rows that were read and not trimmed, whatever statements said."""
    staged_rows = work.count(f"SELECT count(*) FROM {target}")
    if staged_rows != read - trimmed:
        raise counts_disagree(subject, node, read=read, trimmed=trimmed, staged=staged_rows)
