"""Land: an entity's rows become ``staging.<relation>``, by a scan of DuckDB's own or in Arrow batches.

Sources: engine.md 2.2 and 2.4, DECISIONS 10 (a floor that the connector cannot push is cut after landing).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import duckdb
import msgspec.structs

from pz_core.contract.connector import (
    ConnectorError,
    NativeScan,
    ReadHints,
    SettlingSource,
    Source,
    resolved_scan,
)
from pz_core.contract.engine import Host, LandResult, LandTask
from pz_core.contract.refusals import is_trip
from pz_core.engines.duckdb.choices import choices
from pz_core.engines.duckdb.cursor import find_cursor, trim
from pz_core.engines.duckdb.errors import edge_error, is_full, is_transient
from pz_core.engines.duckdb.hints import with_fitting_hints
from pz_core.engines.duckdb.landing import account, connector_faults, stoppable, subject_of
from pz_core.engines.duckdb.reuse import reuse
from pz_core.engines.duckdb.session import Session, Work, staged
from pz_core.errors import PzError, PzErrors, Where


def land(session: Session, host: Host, batch_bytes: int, task: LandTask, work: Work) -> LandResult:
    """Land one entity; after a failure nothing of it is visible.

    Raises:
        ConnectorError: what the connector said, or a fault of DuckDB on the connector's scan.
        PzError: PZ0311, PZ0505, PZ0811, PZ0812, PZ0501.
        NotReusable: if the task asks for an earlier run's rows and they cannot be had.
        Cancelled: if told to stop.
    """
    if task.reuse is not None:
        return reuse(task, task.reuse, work)
    subject, node = subject_of(task), task.node.name
    with connector_faults(subject, node):
        source = host.connector(task.connection).open_source()
    stoppable(source, work)
    planned = task.read.hints
    with contextlib.ExitStack() as ends:
        closing = ends.enter_context(_closing(source, subject, node))
        with connector_faults(subject, node):
            task = with_fitting_hints(session, source, task, work, subject)
        scan: NativeScan | None = None
        if task.tier == "native":
            with connector_faults(subject, node):
                scan = resolved_scan(source, task.read)
        if scan is not None:
            made = _native(session, source, task, work, scan)
        else:
            # Arrow is loaded where batches move, and nowhere else: it takes longer to load than a small entity to land.
            from pz_core.engines.duckdb.land_stream import land_batches

            made = land_batches(session, host, source, closing, batch_bytes, task, work)
        return msgspec.structs.replace(made, choices=choices(planned, task, made))


@contextlib.contextmanager
def _closing(source: Source, subject: str, node: str) -> Iterator[Callable[[], None]]:
    """Close a source once, whoever comes first; a fault of closing never hides the one before it."""
    closed = False

    def close() -> None:
        nonlocal closed
        if not closed:
            closed = True
            with connector_faults(subject, node):
                source.close()

    try:
        yield close
    except BaseException:
        with contextlib.suppress(PzError, PzErrors):
            close()
        raise
    close()


def _native(session: Session, source: Source, task: LandTask, work: Work, scan: NativeScan) -> LandResult:
    subject, node = subject_of(task), task.node.name
    session.set_up(work, scan.setup, subject, node)
    if scan.guarded and isinstance(source, SettlingSource):
        try:
            return _scanned(task, work, scan)
        except duckdb.Error as error:
            work.recognise(error)
            if not _worth_settling(error):
                raise edge_error(error, subject, node) from error
        work.rearm()
        with connector_faults(subject, node):
            settled = source.settle_scan(msgspec.structs.replace(task.read, hints=ReadHints()))
        if settled is None:
            raise ConnectorError(
                f"{subject}: its types cannot be settled",
                where=Where(node=node),
                hint="a connector whose scan is guarded must be able to settle it; tell its authors",
            )
        session.set_up(work, settled.setup, subject, node)
        scan = settled
    try:
        return _scanned(task, work, scan)
    except duckdb.Error as error:
        work.recognise(error)
        raise edge_error(error, subject, node) from error


def _worth_settling(error: duckdb.Error) -> bool:
    """Whether the failure of a guarded scan may be one of the data, which its source tells better or can read.

    Or one of a server that has not as many connections left as such a scan takes.
    """
    machine = (duckdb.OutOfMemoryException, duckdb.FatalException, duckdb.InternalException, duckdb.InterruptException)
    text = str(error)
    return is_trip(text) or is_full(text) or not (isinstance(error, machine) or is_transient(text))


def _scanned(task: LandTask, work: Work, scan: NativeScan) -> LandResult:
    subject, node, target = subject_of(task), task.node.name, staged(task.relation)
    with work.transaction():
        read = work.count(f"CREATE OR REPLACE TABLE {target} AS\n{scan.query}")
        if scan.rejects is not None:
            _refuse_rejects(work, scan.rejects, subject, node)
        columns = work.columns(target)
        trimmed = trim(work, target, columns, task, subject)
        account(work, target, read, trimmed, subject, node)
        found = find_cursor(work, target, columns, task, subject)
    chosen = {} if scan.choice is None else {"access": scan.choice}
    return LandResult(read, read - trimmed, columns, trimmed, "native", cursor=found, choices=chosen)


def _refuse_rejects(work: Work, sql: str, subject: str, node: str) -> None:
    row = work.run(sql).fetchone()
    if not row or not row[0]:
        return
    told = row[1] if len(row) > 1 else None
    detail = f"{row[0]} values are not what their columns declare" if told is None else str(told)
    raise ConnectorError(
        f"{subject}: {detail}",
        code="PZ0812",
        where=Where(node=node),
        hint="declare the column in columns: with a type that holds every value (varchar does), or mend the data",
    )
