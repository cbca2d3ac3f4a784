"""Land in Arrow batches, several partitions at once.

Source: engine.md 2.4, 5.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import msgspec.structs
import pyarrow as pa

from pz_core.contract.connector import ConnectorError, Partition, Source
from pz_core.contract.engine import Host, LandResult, LandTask, PartitionCounts, Stalls
from pz_core.contract.resuming import FeedSource
from pz_core.engines.duckdb import arrow
from pz_core.engines.duckdb.capturing import changes_of, split_changes
from pz_core.engines.duckdb.channel import Readers, Stopped
from pz_core.engines.duckdb.cursor import find_cursor, trim
from pz_core.engines.duckdb.errors import edge_error, foreign_error
from pz_core.engines.duckdb.ingest import Ingest, Meter, StagingTable
from pz_core.engines.duckdb.land_partitions import land_partitions
from pz_core.engines.duckdb.landing import account, connector_faults, subject_of
from pz_core.engines.duckdb.session import Session, Work, staged
from pz_core.errors import PzError, Where


def land_batches(
    session: Session,
    host: Host,
    source: Source,
    close: Callable[[], None],
    batch_bytes: int,
    task: LandTask,
    work: Work,
) -> LandResult:
    """Land what the source's partitions read.

    After a failure nothing of it is visible; only partitions with ids that stay are kept for the next attempt.

    Raises:
        ConnectorError: of a reader, for a batch of another shape, or a fault of DuckDB.
        PzError: PZ0316, PZ0319, PZ0505, PZ0811, PZ0501.
        NotReusable: if partitions of an earlier run are asked for and cannot be had.
        Cancelled: if told to stop.
    """
    subject, node = subject_of(task), task.node.name
    with connector_faults(subject, node):
        partitions = tuple(source.partitions(task.read))
    if task.feed:
        _refuse_split_feed(partitions, subject, node)
    elif partitions and host.connector(task.connection).capabilities.stable_partitions:
        return land_partitions(session, source, close, partitions, batch_bytes, task, work)
    return _together(source, close, partitions or (Partition(),), batch_bytes, task, work)


def _together(
    source: Source,
    close: Callable[[], None],
    partitions: tuple[Partition, ...],
    batch_bytes: int,
    task: LandTask,
    work: Work,
) -> LandResult:
    """All partitions in one transaction: the first fault stops all of them."""
    subject, node = subject_of(task), task.node.name
    captured = task.read.capture is not None
    target = staged(changes_of(task.relation) if captured else task.relation)
    rows = arrow.batch_rows(batch_bytes, len(task.read.columns) if task.read.columns else None)

    def read(partition: Partition) -> Iterator[pa.RecordBatch]:
        return source.read(task.read, partition, rows)

    readers = Readers(partitions, read)
    work.also_on_cancel(readers.channel.stop)
    table = StagingTable(source, task, target)
    ingest = Ingest(work, table, batch_bytes, Meter(work))
    token: str | None = None
    readers.start()
    try:
        with work.transaction():
            with connector_faults(subject, node):
                while taken := readers.channel.take(arrow.MAX_BATCH_ROWS, batch_bytes):
                    for batch in taken:
                        ingest.take(batch)
                ingest.flush()
                table.refuse_nothing()
                if task.feed:
                    token = _next_token(source, task, partitions[0], subject, node)
            columns = work.columns(target)
            trimmed = trim(work, target, columns, task, subject)
            account(work, target, ingest.rows, trimmed, subject, node)
            found = find_cursor(work, target, columns, task, subject)
            result = LandResult(ingest.rows, ingest.rows - trimmed, columns, trimmed, "universal", cursor=found)
            if captured:
                result = split_changes(source, task, result, work, subject)
    except Stopped as error:
        work.control.raise_if_cancelled()
        raise foreign_error(error, subject, node) from error
    except duckdb.Error as error:
        work.recognise(error)
        raise edge_error(error, subject, node) from error
    finally:
        readers.close(close)
    channel = readers.channel
    stalls = Stalls(round(channel.producer_wait * 1000), round(channel.consumer_wait * 1000))
    counts = PartitionCounts(len(partitions), len(partitions)) if len(partitions) > 1 else None
    return msgspec.structs.replace(result, stalls=stalls, partitions=counts, token=token)


def _refuse_split_feed(partitions: tuple[Partition, ...], subject: str, node: str) -> None:
    if len(partitions) > 1:
        raise PzError(
            "PZ0316",
            f"{subject}: a feed resumes at one place, and the connector splits it into {len(partitions)} partitions",
            where=Where(node=node),
            hint="read it in one part; if no option of the read splits it, report it to the connector's authors",
        )


def _next_token(source: Source, task: LandTask, partition: Partition, subject: str, node: str) -> str | None:
    """Where a feed goes on, as the source says it after a read without a fault."""
    if not isinstance(source, FeedSource):
        raise ConnectorError(
            f"{subject}: the connector calls this a feed and does not say where the next read goes on",
            where=Where(node=node),
            hint="report it to the connector's authors; an incremental read with a cursor works meanwhile",
        )
    token = source.next_token(task.read, partition)
    if token is None:
        return None
    try:
        str.encode(token)  # half a surrogate pair is a str, and no text that a store could hold
    except (TypeError, UnicodeEncodeError) as error:
        raise ConnectorError(
            f"{subject}: the connector gave a token that is no text",
            where=Where(node=node),
            hint="report it to the connector's authors",
            cause=error,
        ) from error
    return token
