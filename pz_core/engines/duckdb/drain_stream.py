"""Drain in Arrow batches through a write session: begun, then committed or aborted, never both.

Sources: engine.md 2.6 and 3.3.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import duckdb
import msgspec.structs

from pz_core.contract.connector import (
    ForeseeingSession,
    PipedSession,
    Receipt,
    Sink,
    SqlWriteSession,
    WriteSession,
)
from pz_core.contract.engine import Delivery, DrainResult, DrainTask, Stalls
from pz_core.contract.refusals import is_trip
from pz_core.contract.strategy import LoadRequest, Strategy
from pz_core.engines.duckdb.delivering import Checkpoints, checkpoints, leave_behind
from pz_core.engines.duckdb.dialect import translate
from pz_core.engines.duckdb.errors import counts_disagree, pipeline_error
from pz_core.engines.duckdb.landing import connector_faults
from pz_core.engines.duckdb.ledger import LoadLedger, session_ledger
from pz_core.engines.duckdb.loading import Batch, ddl, fit
from pz_core.engines.duckdb.session import Session, Work
from pz_core.errors import PzError, Where
from pz_core.values import quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

_PROGRESS_BATCHES = 10
_HINT = "correct the pipeline that the output is loaded from"


def stream_out(
    engine: Session,
    sink: Sink,
    batch: Batch,
    strategy: Strategy,
    request: LoadRequest,
    task: DrainTask,
    batch_bytes: int,
    work: Work,
    native: bool = False,
) -> DrainResult:
    """Stream the relation into a write session. Zero rows begin and commit a session too.

    ``rows_written`` is what the receipt says; for a keyed strategy on a table that may be fewer than staged. With
    ``native`` DuckDB writes the rows into the session's pipe, if the session offers one.

    Raises:
        ConnectorError: what the connector said; the session was aborted unless its commit had been tried.
        PzError: PZ0804, PZ0811, PZ0324, PZ0501, PZ0520 if the target has a part of the batch.
        Cancelled: if told to stop before the commit.
    """
    subject, node = batch.subject, batch.node
    with connector_faults(subject, node):
        session = sink.begin(task.write, batch.columns)
    stream = _Stream(batch, batch_bytes, work)
    points: Checkpoints | None = None
    ended = False
    try:
        with connector_faults(subject, node):
            points = checkpoints(engine, session, batch, task, work)
            ledger = None if task.ledger is None else LoadLedger(task.ledger, *session_ledger(session, subject, node))
            done = None if ledger is None else ledger.delivered_by(_existing(session))
            if done is not None:
                ended = True
                session.abort()
                return DrainResult(batch.rows() or 0, 0, "universal", delivered_by=done)
            after = _prepare(session, batch, strategy, request, task)
            if isinstance(session, ForeseeingSession):
                after = session.foresee(after)
            piped = native and points is None and stream.piped(session, engine)
            if not piped:
                stream.into(session, None if points is None else points.query)
            resumed = 0 if points is None else points.resumed
            staged_rows = batch.rows()
            if staged_rows is not None and staged_rows != resumed + stream.rows:
                raise counts_disagree(subject, node, staged=staged_rows, sent=resumed + stream.rows)
            if ledger is not None:
                ledger.write(stream.rows)
            for sql in after:
                work.control.raise_if_cancelled()
                _execute(session, sql)
            work.control.raise_if_cancelled()
            if points is not None:
                points.before_commit()
            ended = True
            work.commits()
            receipt = session.commit()
    except BaseException as error:
        work.shield()
        confirmed = None if points is None else points.broke_off(stream.handed)
        if not ended:
            _abort_quietly(session)
        leave_behind(error, sink, stream.handed, confirmed)
        if not isinstance(error, _Tripped):
            raise
        work.rearm()
        # Batches can say where the value stands.
        return stream_out(engine, sink, batch, strategy, request, task, batch_bytes, work)
    keyed = isinstance(session, SqlWriteSession) and strategy.traits.takes_keys
    if receipt.rows != stream.rows and not keyed:
        raise counts_disagree(subject, node, staged=stream.rows, written=_taken(receipt))
    delivery = Delivery(sink.abort_semantics(), resumed_rows=resumed) if resumed else None
    if points is not None:
        points.done()
    return DrainResult(
        resumed + stream.rows,
        resumed + _taken(receipt),
        "native" if piped else "universal",
        None if piped else stream.stalls(),
        delivery=delivery,
        choices=receipt.choices,
    )


class _Tripped(PzError):
    """A value cannot be written in the form of a pipe; it never leaves this module."""


def _existing(session: WriteSession | SqlWriteSession) -> str | None:
    """The target's name, ``None`` if it does not exist."""
    assert isinstance(session, SqlWriteSession)  # one with a ledger
    return None if session.columns() is None else session.target


def _taken(receipt: Receipt) -> int:
    return int(receipt.rows)


def _prepare(
    session: WriteSession | SqlWriteSession, batch: Batch, strategy: Strategy, request: LoadRequest, task: DrainTask
) -> tuple[str, ...]:
    """Statements to run once all rows are beside the target; a refusal of the schema policy comes before any row."""
    if not isinstance(session, SqlWriteSession):
        if task.write.load_mode == "program":
            raise PzError(
                "PZ0324",
                f"{batch.subject}: the connector gives no SQL session, which strategy '{strategy.name}' needs",
                where=Where(node=batch.node),
                hint="choose append or replace, or report it to the connector's authors",
            )
        return ()
    columns = session.columns()
    changes, drop = fit(strategy, task.write.schema_policy, batch, columns, task.write.keys)
    theirs = msgspec.structs.replace(
        request, staged=session.staged, target=session.target, columns=changes.columns, order=session.order
    )
    return translate((*ddl(session.target, changes, drop), *strategy.program(theirs)), session.dialect)


def _execute(session: WriteSession | SqlWriteSession, sql: str) -> None:
    assert isinstance(session, SqlWriteSession)
    for _ in session.execute(sql):
        pass


def _abort_quietly(session: WriteSession | SqlWriteSession) -> None:
    try:
        session.abort()
    except Exception:  # noqa: BLE001 - the fault that led here is the one to tell
        return


class _Stream:
    """Takes batches from DuckDB and hands them on, one at a time, and measures who waits for whom."""

    def __init__(self, batch: Batch, batch_bytes: int, work: Work) -> None:
        self._batch = batch
        self._batch_bytes = batch_bytes
        self._work = work
        self._reading = 0.0
        self._writing = 0.0
        self._bytes = 0
        self._batches = 0
        self.rows = 0
        self.handed = 0

    def into(self, session: WriteSession | SqlWriteSession, query: str | None = None) -> None:
        """Write every row to the session.

        Args:
            session: where to.
            query: the rows, in the order in which they go; all of the batch in any order without it.
        """
        for record in self._records(query or f"SELECT * FROM {self._batch.name}"):
            self._work.control.raise_if_cancelled()
            began = time.monotonic()
            self.handed += record.num_rows
            session.write(record)
            self._writing += time.monotonic() - began
            self.rows += record.num_rows
            self._bytes += record.nbytes
            self._batches += 1
            if self._batches % _PROGRESS_BATCHES == 0:
                self._work.control.progress(self.rows, self._bytes, self._batches)

    def piped(self, session: WriteSession | SqlWriteSession, engine: Session) -> bool:
        """Have DuckDB write every row into the session's pipe.

        Returns:
            Whether the session has one.

        Raises:
            _Tripped: if a value cannot go this way.
        """
        copy = session.pipe() if isinstance(session, PipedSession) else None
        if copy is None:
            return False
        assert isinstance(session, PipedSession)
        try:
            engine.set_up(self._work, copy.setup, self._batch.subject, self._batch.node)
            query = f"SELECT {copy.projection} FROM {self._batch.name}"
            # Rows go into a pipe one after the other; a view may have more to do before there are any.
            simple = self._batch.passing or self._batch.is_table()
            with engine.in_one_thread() if simple else contextlib.nullcontext():
                self.rows = self._work.count(f"COPY ({query}) TO {quote_literal(copy.path)} ({copy.options})")
        except duckdb.Error as error:
            self._work.recognise(error)
            if is_trip(str(error)):
                raise _Tripped("PZ0812", "a value does not go this way") from error
            session.piped(None)  # where it has a fault, DuckDB only noticed that nobody reads any more
            raise pipeline_error(error, self._batch.node, _HINT) from error
        self.handed = self.rows
        session.piped(self.rows)
        return True

    def stalls(self) -> Stalls:
        """The producer waits while the sink writes, the consumer while DuckDB computes."""
        return Stalls(round(self._writing * 1000), round(self._reading * 1000))

    def _records(self, query: str) -> Iterator[pa.RecordBatch]:
        # Arrow is loaded where batches move, and nowhere else.
        import pyarrow as pa

        from pz_core.engines.duckdb import arrow

        rows = arrow.batch_rows(self._batch_bytes, len(self._batch.columns))
        began = time.monotonic()
        # DuckDB goes on while a batch is being written, as far as there is room for what it makes.
        self._work.run(f"SET streaming_buffer_size = '{2 * self._batch_bytes} bytes'")
        try:
            reader = self._work.run(query).to_arrow_reader(rows)
        except duckdb.Error as error:
            self._work.recognise(error)
            raise pipeline_error(error, self._batch.node, _HINT) from error
        while True:
            try:
                record = reader.read_next_batch()
            except StopIteration:
                return
            except (duckdb.Error, OSError, pa.ArrowException) as error:
                self._work.recognise(error)
                raise pipeline_error(error, self._batch.node, _HINT) from error
            self._reading += time.monotonic() - began
            if record.num_rows:
                yield from arrow.pieces(arrow.plain(record), self._batch_bytes)
            began = time.monotonic()
