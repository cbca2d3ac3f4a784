"""A connector whose places live in this process and do what a test tells them: partitions, feeds, confirmed writes."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pz_core import hookimpl
from pz_core.contract import (
    Capabilities,
    CheckReport,
    ConnectorError,
    Option,
    Partition,
    Receipt,
    Registration,
    TokenRefused,
    option_set,
)
from pz_core.values import Column

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
BATCH = 10


@dataclass
class World:
    """What there is to read and write, what goes wrong, and what was called."""

    parts: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    feeds: dict[str, list[int]] = field(default_factory=dict)
    feed_parts: int = 1
    expired: set[str] = field(default_factory=set)
    token: Callable[[int], Any] = lambda place: f"at/{place}"
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    faults: dict[tuple[str, str | None], list[tuple[int, Exception]]] = field(default_factory=dict)
    reads: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    bounds: list[Any] = field(default_factory=list)
    targets: dict[str, list[int]] = field(default_factory=dict)
    write_fault: tuple[int, Exception] | None = None
    commit_fault: Exception | None = None
    begin_fault: Exception | None = None
    accepts: bool = True
    acknowledges: Callable[[int], int] = lambda sent: sent // BATCH * BATCH
    semantics: str = "best_effort"
    offered: list[int] = field(default_factory=list)
    written: list[list[int]] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0
    pause: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, entity: str, part: str | None, error: Exception, after: int = 0) -> None:
        """The next read of a part raises once it has given so many rows."""
        self.faults.setdefault((entity, part), []).append((after, error))


WORLD = World()


def transient(message: str = "the line was cut", after: float | None = None) -> ConnectorError:
    return ConnectorError(message, transient=True, retry_after=after, hint="try again")


def final(message: str = "no such thing") -> ConnectorError:
    return ConnectorError(message, hint="look at the place")


def disk_full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", "/somewhere/else")


def batches(ids: list[int], schema: pa.Schema, size: int = BATCH) -> Iterator[pa.RecordBatch]:
    for start in range(0, max(len(ids), 1), size):
        some = ids[start : start + size]
        columns = {"id": some, "v": [f"v{i}" for i in some]}
        yield pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


class Source:
    def natural_shape(self, spec):
        return "feed" if spec.entity in WORLD.feeds else "full"

    def schema(self, spec):
        return (Column("id", "BIGINT"), Column("v", "VARCHAR"))

    def native_scan(self, spec):
        return None

    def partitions(self, spec):
        if spec.entity in WORLD.feeds:
            return [Partition(i) for i in range(WORLD.feed_parts)]
        return [Partition(i, id) for i, id in enumerate(WORLD.parts[spec.entity])]

    def read(self, spec, partition, batch_rows):
        with WORLD.lock:
            WORLD.reads.append((spec.entity, partition.id, spec.token))
            WORLD.bounds.append(spec.bounds)
            WORLD.in_flight += 1
            WORLD.peak = max(WORLD.peak, WORLD.in_flight)
            faults = WORLD.faults.get((spec.entity, partition.id), [])
            after, error = faults.pop(0) if faults else (0, None)
        try:
            time.sleep(WORLD.pause)
            yield from self._rows(spec, partition, after, error)
        finally:
            with WORLD.lock:
                WORLD.in_flight -= 1

    def _rows(self, spec, partition, after, error):
        schema = WORLD.schemas.get(spec.entity, SCHEMA)
        if spec.entity in WORLD.feeds:
            if spec.token in WORLD.expired:
                raise TokenRefused(spec.entity, "it is older than 7 days")
            rows = WORLD.feeds[spec.entity]
            self._end = len(rows)
            ids = rows[int(spec.token.rpartition("/")[2]) if spec.token else 0 :]
        else:
            ids = WORLD.parts[spec.entity][partition.id]
        if error is None:
            yield from batches(ids, schema)
            return
        if after:
            yield from batches(ids[:after], schema)
        raise error

    def next_token(self, spec, partition):
        return WORLD.token(self._end)

    def close(self):
        pass


class Session:
    """Keeps what it has confirmed when it is aborted."""

    def __init__(self, entity: str) -> None:
        self._entity, self._start = entity, 0
        self._ids: list[int] = []

    def resume(self, rows):
        WORLD.offered.append(rows)
        if WORLD.accepts:
            self._start = rows
        return WORLD.accepts

    def acknowledged(self):
        return self._start + WORLD.acknowledges(len(self._ids))

    def write(self, batch):
        ids = batch.column(0).to_pylist()
        if WORLD.write_fault is not None and len(self._ids) + len(ids) > WORLD.write_fault[0]:
            error = WORLD.write_fault[1]
            WORLD.write_fault = None
            raise error
        self._ids += ids

    def _put(self, rows):
        WORLD.targets.setdefault(self._entity, []).extend(self._ids[:rows])
        WORLD.written.append(self._ids[:rows])

    def commit(self):
        if WORLD.commit_fault is not None:
            error, WORLD.commit_fault = WORLD.commit_fault, None
            raise error
        self._put(len(self._ids))
        return Receipt(len(self._ids))

    def abort(self):
        self._put(WORLD.acknowledges(len(self._ids)))


class Sink:
    def native_write(self, spec):
        return None

    def begin(self, spec, columns):
        if WORLD.begin_fault is not None:
            error, WORLD.begin_fault = WORLD.begin_fault, None
            raise error
        return Session(spec.entity)

    def abort_semantics(self):
        return WORLD.semantics

    def close(self):
        pass


class Scripted:
    name = "scripted"
    connection_options = option_set(
        Option("place", "string", "where it is"), Option("password", "string", "a secret", secret=True)
    )
    read_options = option_set(
        Option("partition_column", "string", "column"), Option("partitions", "integer", "how many", minimum=1)
    )
    write_options = option_set()
    capabilities = Capabilities(
        reads=True,
        universal_read=True,
        universal_write=True,
        load_modes=frozenset({"add", "swap"}),
        schema_policies=frozenset({"fail_on_change"}),
        bounded_window=True,
        partitioned_read=True,
        stable_partitions=True,
        sync_state=True,
        checkpointable_writes=True,
    )

    def __init__(self, connection):
        self.connection = connection

    def validate(self):
        return ()

    def validate_read(self, spec):
        return ()

    def validate_write(self, spec):
        return ()

    def check(self):
        return CheckReport(True)

    def open_source(self):
        return Source()

    def open_sink(self):
        return Sink()


class Plain(Scripted):
    """The same without ids that stay and without confirmed writes."""

    name = "plain"
    capabilities = Capabilities(
        reads=True,
        universal_read=True,
        universal_write=True,
        load_modes=frozenset({"add", "swap"}),
        schema_policies=frozenset({"fail_on_change"}),
        partitioned_read=True,
        bounded_window=True,
    )

    def open_sink(self):
        return PlainSink()


class PlainSession:
    def __init__(self, entity):
        self._session = Session(entity)

    def write(self, batch):
        self._session.write(batch)

    def commit(self):
        return self._session.commit()

    def abort(self):
        self._session.abort()


class PlainSink(Sink):
    def begin(self, spec, columns):
        return PlainSession(spec.entity)


@hookimpl
def pz_connectors():
    return [
        Registration("scripted", "scripted_places:Scripted", "what a test tells it", ">=1.0,<2"),
        Registration("plain", "scripted_places:Plain", "the same with fewer abilities", ">=1.0,<2"),
    ]
